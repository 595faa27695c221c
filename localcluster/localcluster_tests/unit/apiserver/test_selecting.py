"""Label and field selectors: every requirement against every label, and what is refused, as the page says.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
"""

from __future__ import annotations

from itertools import product

import pytest

from localcluster.apiserver.errors import StatusError
from localcluster.apiserver.selectors import field_selector, field_value, label_selector, parse_fields
from localcluster.objects import amount_of, matches, with_condition
from localcluster.resources import Resource
from localcluster.wire import Json

LABELS: list[dict[str, str]] = [{}, {"env": "prod"}, {"env": "qa"}, {"env": ""}, {"env": "7"}, {"env": "-2"}]
REQUIREMENTS: dict[str, list[bool]] = {
    # in the order of LABELS: none   prod   qa     ''     7      -2
    "env=prod": [False, True, False, False, False, False],
    "env==prod": [False, True, False, False, False, False],
    "env = prod": [False, True, False, False, False, False],
    "env!=prod": [True, False, True, True, True, True],
    "env in (prod, qa)": [False, True, True, False, False, False],
    "env in (prod)": [False, True, False, False, False, False],
    "env notin (prod,qa)": [True, False, False, True, True, True],
    "env": [False, True, True, True, True, True],
    "!env": [True, False, False, False, False, False],
    "env=": [False, False, False, True, False, False],
    "env>6": [False, False, False, False, True, False],
    "env>7": [False, False, False, False, False, False],
    "env<7": [False, False, False, False, False, True],
    "env<8": [False, False, False, False, True, True],
}


def chosen(text: str) -> list[bool]:
    test = label_selector(text)
    return [test is None or test({"metadata": {"labels": labels}}) for labels in LABELS]


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_each_requirement(text: str) -> None:
    assert chosen(text) == REQUIREMENTS[text]


@pytest.mark.parametrize("text", ["env=a b", "env in prod", "=prod", "env===x", ",env", "env>many", "-env", "a/b/c=d"])
def test_what_is_no_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        label_selector(text)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


OPERATORS = {
    ("In", ("prod", "qa")): "env in (prod, qa)",
    ("NotIn", ("prod", "qa")): "env notin (prod,qa)",
    ("Exists", ()): "env",
    ("DoesNotExist", ()): "!env",
}


@pytest.mark.parametrize(("operator", "values"), OPERATORS)
def test_a_selector_of_a_workload_chooses_the_same(operator: str, values: tuple[str, ...]) -> None:
    selector = {"matchExpressions": [{"key": "env", "operator": operator, "values": list(values)}]}
    want = REQUIREMENTS[OPERATORS[operator, values]]
    assert [matches(selector, labels) for labels in LABELS] == want
    both = {"matchLabels": {"env": "prod"}, **selector}
    assert [matches(both, labels) for labels in LABELS] == [
        a and b for a, b in zip(want, REQUIREMENTS["env=prod"], strict=True)
    ]


def test_of_a_workload_an_empty_selector_chooses_all_and_none_nothing() -> None:
    assert all(matches({}, labels) for labels in (*LABELS, None))
    assert not any(matches(None, labels) for labels in (*LABELS, None))


# -- fields ----------------------------------------------------------------------------------------
PODS = Resource("", "v1", "Pod", "pods", namespaced=True, fields=("spec.nodeName", "status.phase", "spec.hostNetwork"))
OBJECTS: dict[str, Json] = {
    "a": {"metadata": {"name": "a", "namespace": "d"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
    "b": {"metadata": {"name": "b", "namespace": "d"}, "spec": {"hostNetwork": True}, "status": {"phase": "Pending"}},
    "c": {"metadata": {"name": "c", "namespace": "e"}, "spec": {"nodeName": ""}},
}
FIELDS = {
    "metadata.name=a": "a",
    "metadata.name!=a": "bc",
    "metadata.namespace=d": "ab",
    "spec.nodeName=n": "a",
    "spec.nodeName=": "bc",
    "spec.nodeName!=": "a",
    "status.phase==Running": "a",
    "status.phase!=Running": "bc",
    "status.phase=": "c",
    "spec.hostNetwork=true": "b",
    "spec.hostNetwork=false": "ac",
    "status.phase!=Running,status.phase!=Pending": "c",
    "metadata.namespace=d,spec.nodeName=": "b",
}


@pytest.mark.parametrize("text", FIELDS)
def test_each_field(text: str) -> None:
    test = field_selector(parse_fields(text, PODS))
    assert test is not None
    assert "".join(name for name, one in OBJECTS.items() if test(one)) == FIELDS[text]


EVENT = {"involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "kubelet"}, "reportingComponent": "r"}


@pytest.mark.parametrize(
    ("path", "want"),
    [("involvedObject.name", "a"), ("regarding.name", "a"), ("source", "kubelet"), ("reportingController", "r")],
)
def test_a_field_of_an_event_by_either_of_its_names(path: str, want: str) -> None:
    assert field_value(EVENT, path) == want


@pytest.mark.parametrize(
    ("resource", "text", "want"),
    [
        ("cpu", "1", 1000),
        ("cpu", "1m", 1),
        ("cpu", "0.1m", 1),
        ("cpu", "1.0005", 1001),
        ("memory", "1Ki", 1024),
        ("memory", "1k", 1000),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "2", 2),
    ],
)
def test_amounts_are_counted_in_milli_cores_and_whole_pieces_rounded_up(resource: str, text: str, want: int) -> None:
    assert amount_of(resource, text) == want


# -- conditions ------------------------------------------------------------------------------------
OLD, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(("before", "after"), list(product(("True", "False", "Unknown"), repeat=2)))
def test_a_conditions_time_moves_with_its_status_and_it_keeps_its_place(before: str, after: str) -> None:
    had: list[Json] = [
        {"type": "A", "status": "True", "lastTransitionTime": OLD},
        {"type": "B", "status": before, "reason": "old", "message": "old", "lastTransitionTime": OLD, "own": 1},
        {"type": "C", "status": "True", "lastTransitionTime": OLD},
    ]
    found = with_condition(had, {"type": "B", "status": after, "reason": "new"}, NOW)
    assert [c["type"] for c in found] == ["A", "B", "C"]
    since = OLD if before == after else NOW
    assert found[1] == {"type": "B", "status": after, "reason": "new", "lastTransitionTime": since, "own": 1}
    assert had[1]["reason"] == "old"
    added = with_condition(had, {"type": "D", "status": after}, NOW)
    assert added == [*had, {"type": "D", "status": after, "lastTransitionTime": NOW}]
