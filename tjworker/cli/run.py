"""`tj run`: a job from a command line, for a first try and for what is run once. `--dry-run` prints the manifest, which
is where a job that matters begins.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

import click

from tjworker.base import JsonDict
from tjworker.cli.console import complain
from tjworker.cli.options import in_namespace, without_logs
from tjworker.cli.output import as_object, dump


@click.command(short_help="Create a job from a command line.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--image", required=True, help="Image of every replica.")
@click.option("--name", help="Name of the job; default: the image's, and five letters.")
@click.option("--replicas", type=click.IntRange(min=1), default=1, help="How many trainers (1).")
@click.option("--max-replicas", type=click.IntRange(min=1), help="As many as the autoscaler finds room for, up to N.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, help="nvidia.com/gpu of each (0).")
@click.option("--cpu", help="CPU request of each, such as 500m or 2.")
@click.option("--memory", help="Memory request of each, such as 4Gi.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable; may be given many times.")
@click.option("--restarts", type=click.IntRange(min=0), default=3, help="How often a failed replica is restarted (3).")
@click.option("--port", type=click.IntRange(1, 65535), help="A port by which the replicas reach each other.")
@click.option("-w", "--wait", is_flag=True, help="Show its output until its end; exit code 1 unless it succeeds.")
@without_logs
@click.option("--dry-run", is_flag=True, help="Print the manifest and create nothing.")
@as_object
@in_namespace
def run(wait: bool, no_logs: bool, dry_run: bool, output: str | None, namespace: str | None, **asked: Any) -> int:
    """Create a job of one role, `trainer`, whose replicas all run COMMAND (default: the image's own).

    \b
    tj run --image busybox --wait -- sh -c "echo hello"
    tj run --image registry.example.com/train:1 --replicas 4 --gpus 1 -- python train.py --epochs 3
    tj run --image busybox --dry-run -- true > job.yaml
    """
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.manifests import Manifest, refuse_the_wrong
    from tjworker.cli.submit import create, follow

    manifest = Manifest("tj run", Asked(**asked).manifest())
    refuse_the_wrong([manifest])
    if asked["command"][-1:] in (("--wait",), ("-w",)):
        complain(f"{asked['command'][-1]} is behind `--` and goes to the program; put it in front for tj")
    if dry_run:
        dump(manifest.raw, "json" if output == "json" else "yaml")
        return 0
    with user_cluster() as cluster:
        made = create(cluster, manifest, namespace or cluster.namespace, output)
        return follow(cluster, [made], logs=not (no_logs or output)) if wait else 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, as click has read them."""

    image: str
    command: tuple[str, ...] = ()
    name: str | None = None
    replicas: int = 1
    max_replicas: int | None = None
    gpus: int = 0
    cpu: str | None = None
    memory: str | None = None
    env: tuple[str, ...] = ()
    restarts: int = 3
    port: int | None = None

    def manifest(self) -> JsonDict:
        """Raises BadParameter for what is no variable, or bounds that cross."""
        from tjworker.api.kinds import aitrainingjob

        role: JsonDict = {"replicas": self.replicas}
        if self.max_replicas is not None:
            if self.max_replicas < self.replicas:
                message = f"{self.max_replicas} is below --replicas {self.replicas}"
                raise click.BadParameter(message, param_hint="--max-replicas")
            role |= {"minReplicas": self.replicas, "maxReplicas": self.max_replicas, "edlPolicy": "Auto"}
        role |= {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": self.restarts}
        return {
            "apiVersion": aitrainingjob.JOB_KIND.api_versions[0],
            "kind": aitrainingjob.KIND,
            "metadata": {"name": self.name or _name_of(self.image)},
            # Ended pods stay, so that `tj logs` has their output.
            "spec": {
                "cleanPodPolicy": "Running",
                "replicaSpecs": {"trainer": role | {"template": {"spec": {"containers": [self._container()]}}}},
            },
        }

    def _container(self) -> JsonDict:
        # The prefix `aitj-` marks the container that decides about success, and the port that other replicas get to
        # know.
        container: JsonDict = {"name": "aitj-trainer", "image": self.image}
        if self.command:
            container["command"] = list(self.command)
        if self.env:
            container["env"] = [_variable(text) for text in self.env]
        if self.port is not None:
            container["ports"] = [{"name": f"aitj-{self.port}", "containerPort": self.port}]
        requests = {k: v for k, v in (("cpu", self.cpu), ("memory", self.memory)) if v}
        limits = {"nvidia.com/gpu": self.gpus} if self.gpus else {}
        if resources := {k: v for k, v in (("requests", requests), ("limits", limits)) if v}:
            container["resources"] = resources
        return container


def _variable(text: str) -> JsonDict:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return {"name": name, "value": value}


def _name_of(image: str) -> str:
    """`registry.example.com/ml/Train_er:1` -> `train-er-x7k2p`."""
    last = image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    # A Service's name has at most 63 characters, and the role, the index and five letters follow.
    base = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:30].strip("-") or "job"
    letters = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own choice: no words come of them
    return f"{base}-{''.join(secrets.choice(letters) for _ in range(5))}"
