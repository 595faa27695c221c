"""kubectl against the local API server prints, word for word, what it printed against a real kube-apiserver."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from localcluster_tests.contract.kubectl.conftest import Running
from localcluster_tests.contract.kubectl.session import run
from localcluster_tests.contract.kubectl.steps import SESSION

GOLDEN = Path(__file__).with_name("golden.txt")


@pytest.mark.long
def test_every_step_prints_what_it_prints_with_a_real_kube_apiserver(running: Running) -> None:
    got = "\n".join(run(SESSION, running.kubeconfig))
    difference = list(
        difflib.unified_diff(
            GOLDEN.read_text().splitlines(), got.splitlines(), "kube-apiserver", "local", lineterm="", n=4
        )
    )
    assert not difference, "\n".join(difference)
