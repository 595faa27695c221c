"""The table of kinds: what owner references, labels and keys make of kinds that share a group, a name or a plural."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from tests.chaos.waves import SCENARIOS
from tests.hostile.schema import GUEST_TREES
from tests.simulation.scenarios import MAKES
from tests.simulation.schemawalk import fields
from tests.simulation.scripts import Wish
from tests.support import fast_yaml as yaml
from tests.support.guests import GUESTS
from tests.support.kinds import TEST_KINDS, TRAININGJOBS, resource_of
from tests.support.paths import ROOT
from tests.unit.tjworker.api import refusals
from tjworker.api.kinds import (
    GUEST_KINDS,
    JOB_KINDS,
    KINDS,
    KNOWN_KINDS,
    OWNERS,
    kind_of_labels,
    map_owners,
    parse,
    served,
)
from tjworker.api.labels import GROUP_NAME, JOB_KIND
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource, Terminal

PYTORCH, TENSORFLOW, KUBEDL = (
    KNOWN_KINDS[GroupResource(name)]
    for name in ("pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org", "pytorchjobs.training.kubedl.io")
)
MORE = (*JOB_KINDS, PYTORCH, TENSORFLOW, KUBEDL)


@dataclass(frozen=True)
class Case:
    labels: dict[str, str] = field(default_factory=dict)
    want: GroupResource | None = None


LABELS: dict[str, Case] = {
    "group and kind name it": Case({GROUP_NAME: "kubeflow.org", JOB_KIND: "TFJob"}, TENSORFLOW.resource),
    "one kind in two groups is told by the group": Case(
        {GROUP_NAME: "training.kubedl.io", JOB_KIND: "PyTorchJob"}, KUBEDL.resource
    ),
    "a pod of an earlier version has no kind: the only one of its group": Case(
        {GROUP_NAME: "paddlepaddle.org"}, TRAININGJOBS
    ),
    "of a group with several kinds none is guessed": Case({GROUP_NAME: "kubeflow.org"}),
    "a kind that the group does not have": Case({GROUP_NAME: "paddlepaddle.org", JOB_KIND: "AITrainingJob"}),
    "a stranger's group": Case({GROUP_NAME: "example.com", JOB_KIND: "TrainingJob"}),
    "no labels": Case(),
}


@pytest.mark.parametrize("case", LABELS.values(), ids=LABELS.keys())
def test_which_kind_labels_name(case: Case) -> None:
    assert kind_of_labels(case.labels, map_owners(MORE)) == case.want


CHOSEN: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "nobody names one": ((), set()),
    "by the name of its CRD": (("tfjobs.kubeflow.org",), {"tfjobs.kubeflow.org"}),
    "by its kind": (("PaddleJob",), {"paddlejobs.kubeflow.org"}),
    "in other letters": (("paddlejob", "MARSJOB"), {"paddlejobs.kubeflow.org", "marsjobs.training.kubedl.io"}),
    "by its plural": (("jaxjobs",), {"jaxjobs.kubeflow.org"}),
    "by kind and group, as kubectl takes it": (("TFJob.training.kubedl.io",), {"tfjobs.training.kubedl.io"}),
    "our own are served anyhow": (("AITrainingJob",), set()),
    "all": (("all",), {str(kind.resource) for kind in GUEST_KINDS}),
    "all, in other letters and beside another": (("ALL", "JAXJob"), {str(kind.resource) for kind in GUEST_KINDS}),
}
NOT_CHOSEN: dict[str, tuple[str, str]] = {
    "a kind of two operators": (
        "TFJob",
        "TJ_KINDS names TFJob, which is a kind of 2 operators; use tfjobs.kubeflow.org or tfjobs.training.kubedl.io",
    ),
    "a plural of two": ("mpijobs", "use mpijobs.kubeflow.org or mpijobs.training.kubedl.io"),
    "nearly one": ("PadleJob", "TJ_KINDS names PadleJob, which is not a known job kind; did you mean PaddleJob? There"),
    "nearly one of two": ("pytorch", "did you mean pytorchjobs.kubeflow.org or pytorchjobs.training.kubedl.io?"),
    "a stranger": ("a/b;c", "which is not a known job kind; use all, pytorchjobs.kubeflow.org, tfjobs.kubeflow.org,"),
}


@pytest.mark.parametrize(("names", "want"), CHOSEN.values(), ids=CHOSEN.keys())
def test_which_guests_are_served(names: tuple[str, ...], want: set[str]) -> None:
    assert served(names).keys() == KINDS.keys() | want


@pytest.mark.parametrize(("name", "says"), NOT_CHOSEN.values(), ids=NOT_CHOSEN.keys())
def test_a_name_that_does_not_say_which_is_refused_with_those_that_do(name: str, says: str) -> None:
    with pytest.raises(Terminal) as refused:
        served([name])
    assert says in refused.value.message


# -- what every kind needs beside its folder ---------------------------------------------------------


def lacking(place: str, have: Iterable[GroupResource]) -> list[str]:
    return [f"kind {KINDS[r].kind} ({r}) has no {place}: add one" for r in KINDS.keys() - set(have)]


JOBS_PAGE = (ROOT / "docs/jobs.md").read_text(encoding="utf-8")
PLACES: dict[str, Callable[[], Iterable[GroupResource]]] = {
    "row in tests/support/kinds.py": lambda: TEST_KINDS,
    "table in tests/unit/tjworker/api/refusals": lambda: refusals.TABLES,
    "line in MAKES of tests/simulation/scenarios.py": lambda: (resource_of(make(Wish())) for make in MAKES.values()),
    "scenario in SCENARIOS of tests/chaos/waves.py": lambda: map(resource_of, SCENARIOS.values()),
    "manifest in examples/": lambda: (
        resource_of(one)
        for path in (ROOT / "examples").rglob("*.yaml")
        if path.parent.name != "simulation"  # for `tj simulate`, not for a cluster
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if (one["apiVersion"].partition("/")[0], one["kind"]) in OWNERS
    ),
    "section in docs/jobs.md": lambda: (r for r, kind in KINDS.items() if kind.kind in JOBS_PAGE),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_kind_is_forgotten(place: str) -> None:
    assert lacking(place, PLACES[place]()) == []


def test_no_guest_is_forgotten() -> None:
    with_roles = {kind.resource for kind in GUEST_KINDS if not kind.companions}
    assert set(GUESTS) == with_roles, "rows of tests/support/guests.py"
    assert set(GUEST_TREES) == set(GUESTS)


@pytest.mark.parametrize("resource", TEST_KINDS)
def test_the_row_of_a_kind_is_usable(resource: GroupResource) -> None:
    row, where = TEST_KINDS[resource], f"{KINDS[resource].kind} in tests/support/kinds.py"
    for name, manifest in (("whole", row.whole()), ("standing", row.standing())):
        assert resource_of(manifest) == resource, f"{name} of {where} is of another kind"
        parsed = parse(resource, {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}})
        assert isinstance(parsed, TrainingJob), f"{name} of {where}: {getattr(parsed, 'errors', '')}"
    assert fields(resource, row.whole()), "walking the schema says which map or list has no entry"
