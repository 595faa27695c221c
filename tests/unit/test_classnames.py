"""The check of class names: what counts as a shared name."""

from __future__ import annotations

import pytest

from tests.support.classnames import find_shared_names

FOUND: dict[str, tuple[tuple[str, str], tuple[str, str], list[str]]] = {
    # path and class of two modules -> the shared names
    "two classes of one name": (("tjworker/a.py", "Room"), ("watcher/b.py", "Room"), ["Room"]),
    "one of them is private": (("tjworker/a.py", "Room"), ("tjworker/b.py", "_Room"), ["Room"]),
    "two names": (("tjworker/a.py", "Room"), ("tjworker/b.py", "NodeRoom"), []),
    "a word of two foreign APIs": (
        ("tjworker/api/kinds/kubeflow/tfjob.py", "TFJob"),
        ("tjworker/api/kinds/kubedl/tfjob.py", "TFJob"),
        [],
    ),
    "a word of a foreign API, and something else": (
        ("tjworker/api/kinds/trainer/spec.py", "Source"),
        ("tjworker/cli/run.py", "Source"),
        ["Source"],
    ),
    "kombu finds its class by the name": (("tjworker/worker/broker.py", "Message"), ("tjworker/a.py", "Message"), []),
    "each module's own base class": (("tjworker/a.py", "_Model"), ("tjworker/b.py", "_Model"), []),
}


@pytest.mark.parametrize("sentence", FOUND)
def test_two_classes_of_one_name(sentence: str) -> None:
    one, other, want = FOUND[sentence]
    modules = [(path, f"class {name}: ...\n") for path, name in (one, other)]
    assert list(find_shared_names(modules)) == want
