"""The first installation, by the commands of docs/operations.md, on the nodes of a Cluster.

Three things of a user's cluster are not here and stand in: a registry (images go from the engine to the nodes), a
provisioner of volumes (Redis' volume is a folder that both nodes share), and, where no registry answers, base images.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.cluster import NAME, SECOND, Cluster, Json
from tests.cluster.images import Archive
from tests.cluster.node import Node
from tests.compose.engine import REDIS as STAND_IN
from tests.compose.engine import Images, base_images, build_image, default_images, docker, find_engine
from tests.support.paths import ROOT
from tjstack.services import kubectl_path

NAMESPACE = "tj-system"
PAGE = ROOT / "docs" / "operations.md"
REDIS = "docker.io/valkey/valkey:9.1-alpine"
COMMAND_SECONDS = 900.0
ADDONS = "localhost/tj-test-addons:1"
"""git and TensorBoard, for the pods of jobs with annotations; Open MPI and sshd, with the two settings that images for
the MPI operator have: unknown hosts are accepted, and keys in a folder that others may write."""
_TENSORBOARD = re.compile(
    "(absl-py|grpcio|markdown|markupsafe|numpy|packaging|pillow|protobuf|setuptools|six|tensorboard"
    "|tensorboard-data-server|typing-extensions|werkzeug)=="
)
_ADDONS_FILE = r"""
ARG PYTHON
FROM ${PYTHON}
RUN apt-get update -q && apt-get install -q -y --no-install-recommends git openmpi-bin openssh-server \
    && mkdir -p /run/sshd && echo StrictModes no > /etc/ssh/sshd_config.d/mpi.conf \
    && echo StrictHostKeyChecking no > /etc/ssh/ssh_config.d/mpi.conf \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY requirements.txt /
RUN pip install -q --no-deps --only-binary :all: --require-hashes -r /requirements.txt
USER 65532:65532
"""
COPIED = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE", "requirements", "beat_schedule.py")
COPIED_CODE = ("tjworker", "watcher", "localcluster", "k8s", "examples")


@dataclass(frozen=True, slots=True)
class Page:
    """What the section "Kubernetes" says up to "With Helm", and "Uninstalling", comments left away."""

    build: list[str]
    kustomization: str
    install: list[str]
    first_job: list[str]
    uninstall: list[str]


def read_page() -> Page:
    text = PAGE.read_text(encoding="utf-8")
    build, kustomization, install, first_job = _blocks(text, "\n## Kubernetes\n", "\n### With Helm\n")
    (uninstall,) = _blocks(text, "\n### Uninstalling\n", "\n## ")
    lines = [[re.sub(r"\s# .*", "", line).strip() for line in b] for b in (build, install, first_job, uninstall)]
    return Page(lines[0], "\n".join(kustomization), *lines[1:])


def _blocks(text: str, begin: str, end: str) -> list[list[str]]:
    section = text.partition(begin)[2].partition(end)[0]
    return [block.splitlines() for block in re.findall(r"```(?:yaml)?\n(.*?)```", section, re.DOTALL)]


@dataclass
class Installation:
    """`build`, `make`, use. Its objects go with the cluster."""

    folder: Path
    page: Page = field(default_factory=read_page)
    said: dict[str, str] = field(default_factory=dict)
    """What each command printed."""
    cluster: Cluster = field(init=False)
    _operators: Archive = field(init=False)

    def build(self, first_node: Future[Node]) -> Installation:
        """The images, which this node then has. Raises NoEngineError; CommandError."""
        find_engine(compose_too=False)
        images = base_images(default_images())
        self._copy_the_tree()
        operator, *jobs = (image for line in self.page.build for image in self._make_image(line, images))
        self._operators = self._save("operators", operator, images.redis)
        of_jobs = self._save("jobs", *jobs, self._make_addons(images))
        for archive in (self._operators, of_jobs):
            first_node.result().load(archive)
        return self

    def make(self, cluster: Cluster) -> None:
        """On the first node alone. Raises AssertionError with a command's words."""
        self.cluster = cluster
        cluster.remove_operator()
        cluster.kubectl("cordon", cluster.second.name)
        self._offer_a_volume()
        (self.own / "kustomization.yaml").write_text(self.page.kustomization, encoding="utf-8")
        for line in self.page.install:
            if "port-forward" not in line:
                self.run(line)

    def serve(self, *kinds: str) -> None:
        """Other operators' kinds, as docs/kinds.md says; the operator's pods are replaced by ones with the setting."""
        folders = "".join(f", ../trainingjob-operator/k8s/kinds/{kind}" for kind in kinds)
        text = self.page.kustomization.replace("trainingjob-operator/k8s]", f"trainingjob-operator/k8s{folders}]")
        settings = f"'TJ_KINDS={','.join(kinds)}', TJ_GIT_SYNC_IMAGE={ADDONS}, "
        changed = text.replace("literals: [", f"literals: [{settings}")
        (self.own / "kustomization.yaml").write_text(changed, encoding="utf-8")
        self.run("kubectl apply -k .")

    @property
    def own(self) -> Path:
        """The folder of the user's own, beside the repository."""
        return self.folder / "own"

    def use_second_node(self) -> None:
        """For the operator's pods: the images of jobs are not there."""
        self.cluster.second.load(self._operators)
        self.cluster.kubectl("uncordon", SECOND)

    def uninstall(self) -> None:
        for line in self.page.uninstall:
            self.run(line)

    def run(self, line: str) -> str:
        """A command of the page, as a shell in the user's folder runs it."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.own,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        self.said[line] = done.stdout
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE"))}
        path = f"{kubectl_path().parent}:{os.environ['PATH']}"
        return {**kept, "PATH": path, "KUBECONFIG": str(self.cluster.plane.kubeconfig)}

    @contextlib.contextmanager
    def forwarded(self, line: str, port: int) -> Iterator[int]:
        """The page's port-forward, with a free port of this machine instead of the page's: that may be taken."""
        words = re.sub(rf"\b{port}\b(:\d+)?", lambda m: f":{(m[1] or ':' + m[0])[1:]}", line).split()
        with subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
                assert found, f"{line} forwards nothing"
                yield int(found[1])
            finally:
                process.terminate()

    # -- what there is -------------------------------------------------------------------------------
    def pods(self, component: str = "") -> list[Json]:
        selector = (
            f"app.kubernetes.io/part-of=trainingjob-operator{component and f',app.kubernetes.io/component={component}'}"
        )
        found: Json = json.loads(self.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-l", selector, "-o", "json"))
        return list(found["items"])

    def is_ready(self, component: str, at_least: int = 1) -> bool:
        pods = [p for p in self.pods(component) if not p["metadata"].get("deletionTimestamp")]
        return len(pods) >= at_least and all(is_ready(pod) for pod in pods)

    # -- how it is made ------------------------------------------------------------------------------
    def _copy_the_tree(self) -> None:
        """So that the page's `../trainingjob-operator` is there, and nothing is written into the checkout."""
        self.own.mkdir(parents=True)
        for name in (*COPIED, *COPIED_CODE):
            target = self.folder / "trainingjob-operator" / name
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                target.parent.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, target)

    def _make_image(self, line: str, images: Images) -> list[str]:
        """What the line pushes."""
        verb, *words = line.removeprefix("docker ").split()
        if verb == "push":
            return words
        assert verb == "build", line
        assert words.pop() == ".", line
        options = dict(zip(words[::2], words[1::2], strict=True))
        tree = self.folder / "trainingjob-operator"
        build_image(options["-t"], tree, images, options.get("--target", ""))
        return []

    def _make_addons(self, images: Images) -> str:
        tree = self.folder / "addons"
        tree.mkdir()
        pins = re.split(r"\n(?=\S)", (ROOT / "requirements/frameworks.txt").read_text(encoding="utf-8"))
        wanted = [pin for pin in pins if _TENSORBOARD.match(pin)]
        (tree / "requirements.txt").write_text("\n".join(wanted), encoding="utf-8")
        (tree / "Dockerfile").write_text(_ADDONS_FILE, encoding="utf-8")
        build_image(ADDONS, tree, images)
        return ADDONS

    def _save(self, name: str, *images: str) -> Archive:
        file = self.folder / f"{name}.tar"
        docker("save", "--output", str(file), *images, timeout_seconds=COMMAND_SECONDS)
        return Archive(file, {image: REDIS for image in images if image == STAND_IN})

    def _offer_a_volume(self) -> None:
        folder = self.folder / "redis"
        folder.mkdir()
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NAME, SECOND]}]}]
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        objects = [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "shared", "annotations": default},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": "redis"},
                "spec": {
                    "capacity": {"storage": "2Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "shared",
                    "local": {"path": str(folder)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                },
            },
        ]
        made = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
