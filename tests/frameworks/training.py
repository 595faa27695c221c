"""A local stack on which examples/<framework> train, and what their logs say.

The manifests are applied as they are. What an image would bring, its programs and libraries, comes from
.venv/frameworks: each container's PATH is set to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import LocalStack
from tests.support import fast_yaml as yaml
from tests.support import waiting
from tests.support.paths import ROOT

Json = dict[str, Any]
HOME = ROOT / ".venv/frameworks"
DEBIAN = HOME / "debian"
TRAIN_SECONDS = 600.0
"""Until a job has ended: TensorFlow alone takes half a minute to start on a busy machine."""
STEP = re.compile(r"^(?:\[default\d\]:)?step (\d+) loss (\d+\.\d+)", re.MULTILINE)


def image(framework: str) -> dict[str, str]:
    """The environment that the framework's image would have."""
    path = os.pathsep.join([str(HOME / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
    found = {"PATH": path, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if framework != "pytorch":
        return found
    folders = {str(file.parent) for file in DEBIAN.rglob("*.so*")}
    first = [str(DEBIAN / "usr/lib/x86_64-linux-gnu"), str(DEBIAN / "lib/x86_64-linux-gnu"), str(DEBIAN / "usr/lib")]
    libraries = os.pathsep.join([*first, *sorted(f for f in folders if f.endswith(("blas", "lapack", "pthread")))])
    # torchrun of PyTorch 1.13 must redirect the output of its processes on Python 3.11 (it looks for its 0 and its 3
    # among the members of a Flag, which yields single bits only by now), so it also shows it, with a prefix.
    shown = {"PET_REDIRECTS": "1", "PET_TEE": "1"}
    packages = str(DEBIAN / "usr/lib/python3/dist-packages")
    return found | shown | {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": packages}


def need(*files: str) -> None:
    missing = [file for file in files if not list(HOME.glob(file))]
    if missing:
        pytest.skip(
            f".venv/frameworks has no {', '.join(missing)}: what make test-frameworks said when it made it says why"
        )


class Training(LocalStack):
    def __init__(self, folder: Path, **settings: str) -> None:
        nodes = ("--nodes", "2", "--node-cpu", "4")
        super().__init__(folder / "state", *nodes, TJ_AUTOSCALE_COOLDOWN_SECONDS="5", **settings)

    def train(self, framework: str, file: str = "job.yaml", **env: str) -> Json:
        """Applies the example; the job's manifest."""
        job: Json = yaml.safe_load((ROOT / "examples" / framework / file).read_text())
        brought = [{"name": name, "value": value} for name, value in (image(framework) | env).items()]
        for role in job["spec"]["replicaSpecs"].values():
            for container in role["template"]["spec"]["containers"]:
                container["env"] = [*brought, *container.get("env", ())]
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(job))
        return job

    def ended(self, name: str) -> str:
        """The phase in which it ends."""
        ends = ("Succeed", "Failed", "Timeout", "Preempted", "NodeFail")
        waiting.until(
            f"{name} has ended",
            lambda: self.status(name).get("phase") in ends,
            TRAIN_SECONDS,
            context=lambda: self.story(name),
            look_seconds=0.5,
        )
        return str(self.status(name)["phase"])

    def log(self, pod: str) -> str:
        return self.kubectl("logs", pod, check=False)

    def until_log(self, pod: str, says: Callable[[str], bool], what: str) -> None:
        waiting.until(
            f"{what}, {pod} says",
            lambda: says(self.log(pod)),
            TRAIN_SECONDS,
            context=lambda: self.log(pod)[-3000:],
            look_seconds=0.5,
        )

    def story(self, name: str) -> str:
        """For whoever reads a failure."""
        status = {k: v for k, v in self.status(name).items() if k in ("phase", "message", "failures", "conditions")}
        return "\n".join([str(status), *(f"--- {pod}\n{self.log(pod)[-3000:]}" for pod in sorted(self.pods(name)))])


def losses(log: str) -> list[float]:
    """By step. A step that was done again counts as it was done last."""
    return [loss for _, loss in sorted({int(step): float(loss) for step, loss in STEP.findall(log)}.items())]


def falls(log: str, steps: int) -> None:
    """The loss of every step is there, none is above that of the step before, and the last is far below the first."""
    found = losses(log)
    assert len(found) == steps, log[-3000:]
    assert all(later <= earlier * 1.001 for earlier, later in pairwise(found)), found
    assert found[-1] < 0.8 * found[0], found
