"""What `kubectl get` shows of a pod, of ages, and of a printer column's path: in the words of Kubernetes' printers
(`pkg/printers/internalversion/printers.go`, `duration.HumanDuration`).
"""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.apiserver.jsonpath import PathError, compile_path, show
from localcluster.apiserver.tables.durations import age_since, format_duration
from localcluster.apiserver.tables.pods import POD
from localcluster.wire import Json

NOON = 1_767_268_800.0
MINUTE, HOUR, DAY = 60, 3600, 86_400
AGES: dict[str, tuple[float, str]] = {
    "long before": (-2, "<invalid>"),
    "a moment before": (-0.5, "0s"),
    "now": (0, "0s"),
    "seconds to two minutes": (119, "119s"),
    "two minutes": (120, "2m"),
    "minutes and seconds to ten minutes": (9 * MINUTE + 59, "9m59s"),
    "ten minutes": (10 * MINUTE + 30, "10m"),
    "minutes to three hours": (3 * HOUR - 1, "179m"),
    "three hours": (3 * HOUR, "3h"),
    "hours and minutes to eight hours": (8 * HOUR - 1, "7h59m"),
    "eight hours": (8 * HOUR + 59 * MINUTE, "8h"),
    "hours to two days": (2 * DAY - 1, "47h"),
    "two days": (2 * DAY, "2d"),
    "days and hours to eight days": (8 * DAY - 1, "7d23h"),
    "eight days": (8 * DAY + 5 * HOUR, "8d"),
    "days to two years": (2 * 365 * DAY - 1, "729d"),
    "two years": (2 * 365 * DAY, "2y"),
    "years and days to eight years": (8 * 365 * DAY - 1, "7y364d"),
    "eight years": (8 * 365 * DAY + 9 * DAY, "8y"),
}


@pytest.mark.parametrize("what", AGES)
def test_an_age(what: str) -> None:
    seconds, want = AGES[what]
    assert format_duration(seconds) == want


def test_an_age_since_a_time() -> None:
    assert age_since("2026-01-01T11:59:00Z", NOON) == "60s"
    assert age_since(None, NOON) == age_since("x", NOON) == "<unknown>"


# -- a pod's row -----------------------------------------------------------------------------------
def status(name: str, state: str, ready: bool = False, restarts: int = 0, **more: Any) -> Json:
    kind, _, word = state.partition(" ")
    states: dict[str, Json] = {
        "running": {"running": {}},
        "waiting": {"waiting": {"reason": word}},
        "ended": {
            "terminated": {"exitCode": int(word) if word.isdigit() else 0, "reason": "" if word.isdigit() else word}
        },
        "failed": {"terminated": {"exitCode": 1, "reason": word}},
        "signal": {"terminated": {"exitCode": 137, "signal": 9}},
        "none": {},
    }
    return {"name": name, "state": states[kind], "ready": ready, "restartCount": restarts, **more}


def row(phase: str, *containers: Json, inits: list[Json] | None = None, **more: Any) -> tuple[str, str]:
    """(READY, STATUS)"""
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T11:59:00Z", **more.pop("metadata", {})}
    asked = [{"name": c["name"]} for c in containers] or [{"name": "a"}]
    sidecars = more.pop("sidecars", ())
    spec: Json = {
        "containers": asked,
        "initContainers": [
            {"name": c["name"], **({"restartPolicy": "Always"} if c["name"] in sidecars else {})} for c in inits or ()
        ],
    }
    status = {"phase": phase, "containerStatuses": list(containers), "initContainerStatuses": inits or [], **more}
    cells, _ = POD.row({"metadata": metadata, "spec": spec, "status": status}, NOON)
    return cells[1], cells[2]


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
DELETED = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
ROWS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "no status yet": (row("Pending"), ("0/1", "Pending")),
    "it runs and is ready": (row("Running", status("a", "running", True)), ("1/1", "Running")),
    "it runs and is not": (row("Running", status("a", "running")), ("0/1", "Running")),
    "one of two": (row("Running", status("a", "running", True), status("b", "running")), ("1/2", "Running")),
    "it is being made": (row("Pending", status("a", "waiting ContainerCreating")), ("0/1", "ContainerCreating")),
    "it waits to run again": (row("Running", status("a", "waiting CrashLoopBackOff")), ("0/1", "CrashLoopBackOff")),
    "of two that wait the first": (
        row("Pending", status("a", "waiting ErrImagePull"), status("b", "waiting ContainerCreating")),
        ("0/2", "ErrImagePull"),
    ),
    "it has succeeded": (row("Succeeded", status("a", "ended Completed")), ("0/1", "Completed")),
    "it has failed": (row("Failed", status("a", "failed Error")), ("0/1", "Error")),
    "it has failed without a reason": (row("Failed", status("a", "ended 3")), ("0/1", "ExitCode:3")),
    "it was killed without a reason": (row("Failed", status("a", "signal")), ("0/1", "Signal:9")),
    "one completed, the other runs and the pod is ready": (
        row("Running", status("a", "ended Completed"), status("b", "running", True), **READY),
        ("1/2", "Running"),
    ),
    "one completed, the other runs, and the pod is not ready": (
        row("Running", status("a", "ended Completed"), status("b", "running", True)),
        ("1/2", "NotReady"),
    ),
    "one completed, the other failed": (
        row("Failed", status("a", "ended Completed"), status("b", "failed OOMKilled")),
        ("0/2", "OOMKilled"),
    ),
    "it was evicted": (row("Failed", reason="Evicted"), ("0/1", "Evicted")),
    "it is being deleted": (row("Running", status("a", "running", True), metadata=DELETED), ("1/1", "Terminating")),
    "it is being deleted, and had ended": (
        row("Succeeded", status("a", "ended Completed"), metadata=DELETED),
        ("0/1", "Completed"),
    ),
    "it is being deleted from a lost node": (row("Running", reason="NodeLost", metadata=DELETED), ("0/1", "Unknown")),
    "it waits at a gate": (
        row("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        ("0/1", "SchedulingGated"),
    ),
    "the first of two init containers runs": (
        row("Pending", status("a", "waiting PodInitializing"), inits=[status("i", "running"), status("j", "none")]),
        ("0/1", "Init:0/2"),
    ),
    "the second of them": (
        row(
            "Pending",
            status("a", "waiting PodInitializing"),
            inits=[status("i", "ended Completed"), status("j", "waiting PodInitializing")],
        ),
        ("0/1", "Init:1/2"),
    ),
    "an init container cannot start": (
        row("Pending", status("a", "waiting PodInitializing"), inits=[status("i", "waiting ErrImagePull")]),
        ("0/1", "Init:ErrImagePull"),
    ),
    "an init container has failed": (
        row("Pending", status("a", "waiting PodInitializing"), inits=[status("i", "failed Error")]),
        ("0/1", "Init:Error"),
    ),
    "a sidecar counts with the containers": (
        row(
            "Running", status("a", "running", True), inits=[status("s", "running", True, started=True)], sidecars=("s",)
        ),
        ("2/2", "Running"),
    ),
    "a sidecar that is not ready": (
        row("Running", status("a", "running", True), inits=[status("s", "running", started=True)], sidecars=("s",)),
        ("1/2", "Running"),
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_row_of_a_pod(what: str) -> None:
    found, want = ROWS[what]
    assert found == want


def restarts(*containers: Json, inits: list[Json] | None = None) -> str:
    spec: Json = {"containers": [{"name": "a"}], "initContainers": [{"name": i["name"]} for i in inits or ()]}
    status = {"phase": "Running", "containerStatuses": list(containers), "initContainerStatuses": inits or []}
    cells, _ = POD.row({"metadata": {"name": "p"}, "spec": spec, "status": status}, NOON)
    return str(cells[3])


def ended_at(time: str) -> Json:
    return {"lastState": {"terminated": {"exitCode": 1, "finishedAt": time}}}


def test_restarts_are_counted_with_the_time_of_the_last() -> None:
    assert restarts(status("a", "running")) == "0"
    assert restarts(status("a", "running", restarts=2)) == "2"
    early, late = ended_at("2026-01-01T11:00:00Z"), ended_at("2026-01-01T11:55:00Z")
    assert (
        restarts(status("a", "running", restarts=2, **late), status("b", "running", restarts=1, **early))
        == "3 (5m ago)"
    )
    assert restarts(status("a", "running"), inits=[status("i", "ended Completed", restarts=4)]) == "0"


# -- paths of printer columns ----------------------------------------------------------------------
OBJECT: Json = {
    "a": {"b": [1, 2, 3], "c.d": "dotted", "none": None},
    "conditions": [{"type": "Ready", "status": "True", "n": 3}, {"type": "Other", "status": "False", "n": 5}],
}
PATHS: dict[str, list[Any]] = {
    ".a.b[0]": [1],
    "a.b[0]": [1],
    ".a.b[-1]": [3],
    ".a.b[3]": [],
    ".a.b[-4]": [],
    ".a.b[*]": [1, 2, 3],
    ".a.b": [[1, 2, 3]],
    ".a['c.d']": ["dotted"],
    r".a.c\.d": ["dotted"],
    ".a.none": [],
    ".a.missing.more": [],
    '.conditions[?(@.type=="Ready")].status': ["True"],
    ".conditions[?(@.type=='Ready')].status": ["True"],
    '.conditions[?(@.type!="Ready")].type': ["Other"],
    ".conditions[?(@.n>3)].type": ["Other"],
    ".conditions[?(@.n>=3)].type": ["Ready", "Other"],
    ".conditions[?(@.n<5)].type": ["Ready"],
    ".conditions[?(@.n<=5)].type": ["Ready", "Other"],
    '.conditions[?(@.n>"3")].type': [],
    ".conditions[?(@.missing)].type": [],
    ".conditions[?(@.n)].type": ["Ready", "Other"],
    ".a.b[?(@>1)]": [2, 3],
    ".a.b[-1:]": [3],
    ".a.b[-2:].none": [],
    ".a.b[0:2]": [1, 2],
    ".a.b[:-1]": [1, 2],
    ".a.b[::2]": [1, 3],
    ".a.b[1:1]": [],
    ".a.b[2:1]": [],
    ".a.b[1:4]": [],
    ".a.b[-4:]": [],
    ".a.b[:]": [1, 2, 3],
    ".a[0:1]": [],
    ".conditions[-1:].type": ["Other"],
}


@pytest.mark.parametrize("path", PATHS)
def test_what_a_path_finds(path: str) -> None:
    assert compile_path(path)(OBJECT) == PATHS[path]


@pytest.mark.parametrize("path", [".a[", ".a[b]", ".a[1:2:3:4]", ".a[-]"])
def test_a_path_that_cannot_be_read_is_no_empty_column(path: str) -> None:
    with pytest.raises(PathError, match="cannot be read from"):
        compile_path(path)


def test_how_a_value_is_shown() -> None:
    assert [show(v) for v in ("x", None, True, 3, [1, "a"], {"b": 1})] == ["x", "", "true", "3", '[1,"a"]', '{"b":1}']
