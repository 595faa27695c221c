"""Which containers' logs are wanted, and how their lines are labelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.cli import logstream
from tjworker.cli.logstream import WHOLE, Excerpt, Follower, Wanted, targets


def pod(*names: str, role: str = "trainer", index: str = "1", states: dict[str, Any] | None = None) -> dict[str, Any]:
    statuses = [{"name": n, "state": s, "restartCount": 2} for n, s in (states or {}).items()]
    return {
        "metadata": {
            "name": f"digits-{role}-{index}",
            "uid": "u",
            "labels": {"replica-name": role, "replica-index": index},
        },
        "spec": {"containers": [{"name": n} for n in names]},
        "status": {"containerStatuses": statuses},
    }


@dataclass(frozen=True)
class Case:
    pod: dict[str, Any]
    wanted: Wanted
    want: list[tuple[str, str, bool]]
    """(label, container, started)."""
    main: str | None = None


CASES: dict[str, Case] = {
    "one counted container has the replica's label": Case(
        pod("aitj-a", "sidecar"), Wanted(), [("trainer-1", "aitj-a", False)]
    ),
    "several have their own names too": Case(
        pod("aitj-a", "aitj-b"),
        Wanted(),
        [("trainer-1/aitj-a", "aitj-a", False), ("trainer-1/aitj-b", "aitj-b", False)],
    ),
    "a running container has something to read": Case(
        pod("aitj-a", states={"aitj-a": {"running": {}}}), Wanted(), [("trainer-1", "aitj-a", True)]
    ),
    "one that waits has not": Case(
        pod("aitj-a", states={"aitj-a": {"waiting": {}}}), Wanted(), [("trainer-1", "aitj-a", False)]
    ),
    "role and index fit": Case(pod("aitj-a"), Wanted(role="trainer", index=1), [("trainer-1", "aitj-a", False)]),
    "a pod without counted names shows its first container": Case(
        pod("main", "side"), Wanted(), [("trainer-1", "main", False)]
    ),
    "of a kind that names its container, that one, wherever it stands": Case(
        pod("aitj-side", "pytorch"), Wanted(), [("trainer-1", "pytorch", False)], main="pytorch"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_targets(case: Case) -> None:
    assert [(t.label, t.container, t.started) for t in targets(case.pod, case.wanted, case.main)] == case.want


class EndlessLog:
    status = 200

    def lines(self) -> Iterator[list[bytes]]:
        yield [b"one", b"two"]
        threading.Event().wait(PATIENCE_SECONDS)

    def close(self) -> None:
        pass


def test_following_ends_when_the_reader_of_stdout_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tj logs digits -f | head`: the job goes on, the reader does not."""
    running = pod("aitj-a", states={"aitj-a": {"running": {}}})

    @contextmanager
    def informer(*_: Any, on_change: Any, **__: Any) -> Iterator[None]:
        on_change("ADDED", running)
        yield

    def emit(_label: str, _line: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(logstream, "Informer", informer)
    job: Any = SimpleNamespace(resource=AITRAININGJOBS, raw={"metadata": {"name": "digits", "uid": "u"}})
    api = SimpleNamespace(get=lambda *_: {"metadata": {"uid": "u"}, "status": {}})
    cluster: Any = SimpleNamespace(api=api, transport=SimpleNamespace(stream=lambda *_, **__: EndlessLog()))
    guard = threading.Event()
    timer = threading.Timer(PATIENCE_SECONDS, guard.set)
    timer.start()
    try:
        with pytest.raises(BrokenPipeError):
            Follower(cluster, "default", job, Wanted(), WHOLE, emit).run(guard)
    finally:
        timer.cancel()
    assert not guard.is_set(), "it went on until the job's end"


class ShortLog:
    status = 200

    def lines(self) -> Iterator[list[bytes]]:
        yield [b"bye"]

    def close(self) -> None:
        pass


def test_an_ended_jobs_logs_are_read_once_each_though_the_informer_tells_of_its_pods_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job has ended: the last look finds its pods while the informer's thread begins to read the first."""
    pods = [pod("aitj-a", index=str(i), states={"aitj-a": {"terminated": {"exitCode": 0}}}) for i in range(3)]
    for i, each in enumerate(pods):
        each["metadata"]["uid"] = f"u{i}"
    teller: list[threading.Thread] = []
    begins = threading.Event()

    class Reader(threading.Thread):
        """The informer's thread is held up between its making and its start."""

        def start(self) -> None:
            if threading.current_thread() is teller[0]:
                begins.set()
                threading.Event().wait(0.1)
            super().start()

    @contextmanager
    def informer(*_: Any, on_change: Any, **__: Any) -> Iterator[None]:
        teller.append(threading.Thread(target=lambda: on_change("ADDED", pods[0]), daemon=True))
        teller[0].start()
        yield

    def last_look(*_: Any, **__: Any) -> list[dict[str, Any]]:
        assert begins.wait(PATIENCE_SECONDS)
        return pods

    monkeypatch.setattr(logstream, "Informer", informer)
    monkeypatch.setattr(
        logstream, "threading", SimpleNamespace(Thread=Reader, Lock=threading.Lock, Event=threading.Event)
    )
    job: Any = SimpleNamespace(resource=AITRAININGJOBS, raw={"metadata": {"name": "digits", "uid": "u"}})
    api = SimpleNamespace(
        get=lambda *_: {"metadata": {"uid": "u"}, "status": {"completionTime": "2026-01-01T00:00:00Z"}},
        list_all=last_look,
    )
    cluster: Any = SimpleNamespace(api=api, transport=SimpleNamespace(stream=lambda *_, **__: ShortLog()))
    printed: list[str] = []
    Follower(cluster, "default", job, Wanted(), WHOLE, lambda label, line: printed.append(f"{label} {line}")).run()
    assert sorted(printed) == [f"trainer-{i} bye" for i in range(3)]


ENDED = {"metadata": {"uid": "u"}, "status": {"completionTime": "2026-01-01T00:00:00Z"}}


def follower(
    monkeypatch: pytest.MonkeyPatch,
    pods: list[dict[str, Any]],
    last_look: Callable[[], object],
    stream: Callable[[], Any],
    emit: Callable[[str, str], None],
    most: int | None = None,
) -> Follower:
    """Of a job that has ended. The informer tells of the pods at once."""

    @contextmanager
    def informer(*_: Any, on_change: Any, order: Any, **__: Any) -> Iterator[None]:
        for each in sorted(pods, key=order):
            on_change("ADDED", each)
        yield

    def listed(*_: Any, **__: Any) -> list[dict[str, Any]]:
        last_look()
        return pods

    monkeypatch.setattr(logstream, "Informer", informer)
    job: Any = SimpleNamespace(resource=AITRAININGJOBS, raw={"metadata": {"name": "digits", "uid": "u"}})
    api = SimpleNamespace(get=lambda *_: ENDED, list_all=listed)
    cluster: Any = SimpleNamespace(api=api, transport=SimpleNamespace(stream=lambda *_, **__: stream()))
    return Follower(cluster, "default", job, Wanted(), WHOLE, emit, most=most)


@dataclass
class Clock:
    now: float = 0.0
    looks: int = 0


def test_a_log_is_printed_to_its_end_though_its_reader_takes_longer_than_a_log_may_be_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`tj logs digits -f | less`: what the job said at its end is not lost because the page has not been turned yet."""
    clock = Clock()
    prints = threading.Event()
    printed: list[str] = []

    def monotonic() -> float:
        clock.looks += threading.current_thread() is threading.main_thread()
        return clock.now

    def waited_for_or_given_up() -> None:
        before = clock.looks
        with suppress(AssertionError):
            until("it is looked at, or the follower has stopped", lambda: clock.looks > before + 2 or one._stopped, 5)

    class Log(ShortLog):
        def lines(self) -> Iterator[list[bytes]]:
            yield [b"one"]
            waited_for_or_given_up()
            yield [b"two"]

    def emit(_label: str, line: str) -> None:
        prints.set()
        if line == "one":
            until("the end is waited for", lambda: clock.looks > 1)
            clock.now += 2 * logstream.STILL_SECONDS
            waited_for_or_given_up()
        printed.append(line)

    def last_look() -> None:
        assert prints.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(logstream, "monotonic", monotonic)
    over = pod("aitj-a", states={"aitj-a": {"terminated": {"exitCode": 0}}})
    one = follower(monkeypatch, [over], last_look, Log, emit)
    one.run()
    assert printed == ["one", "two"]


class OpenLog:
    """Gives nothing more, until it is closed."""

    status = 200

    def __init__(self, *lines: bytes) -> None:
        self.closed = threading.Event()
        self._lines = lines

    def lines(self) -> Iterator[list[bytes]]:
        yield list(self._lines)
        self.closed.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.closed.set()


def test_a_container_that_runs_on_after_the_job_holds_no_reader_up_and_its_reader_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logstream, "STILL_SECONDS", 0.05)
    printed: list[str] = []
    log = OpenLog(b"still here")
    runs = pod("aitj-a", states={"aitj-a": {"running": {}}})
    runs["status"]["phase"] = "Running"
    one = follower(
        monkeypatch,
        [runs],
        lambda: until("it is read", lambda: printed),
        lambda: log,
        lambda _label, line: printed.append(line),
    )
    one.run()
    assert printed == ["still here"]
    assert log.closed.is_set()
    until("its reader has ended", lambda: not any(r.thread.is_alive() for r in one._readers.values()))


def numbered(index: int, uid: str = "") -> dict[str, Any]:
    made = pod("aitj-a", index=str(index), states={"aitj-a": {"terminated": {"exitCode": 1}}})
    made["metadata"]["uid"] = uid or f"u{index}"
    return made


def test_a_pod_that_is_replaced_keeps_its_place_and_one_that_is_deleted_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = follower(monkeypatch, [], lambda: None, ShortLog, lambda *_: None, most=1)
    steps = [
        ("ADDED", numbered(0), 0),
        ("ADDED", numbered(1), 1),
        ("ADDED", numbered(0, "another"), 1),  # of a new attempt
        ("DELETED", numbered(0), 1),  # the first one, late
        ("MODIFIED", numbered(1), 1),
        ("DELETED", numbered(0, "another"), 1),
        ("MODIFIED", numbered(1), 0),
        ("ADDED", numbered(2), 1),
        ("DELETED", numbered(2), 0),
    ]
    for kind, each, left_out in steps:
        one._on_pod(kind, each)
        assert one.left_out == left_out, (kind, each["metadata"]["uid"])
    assert len(one._readers) == 3


EXCERPTS: dict[str, tuple[Excerpt, dict[str, str]]] = {
    "the whole log": (WHOLE, {}),
    "what is young": (Excerpt(since_seconds=90), {"sinceSeconds": "90"}),
    "of the run before": (Excerpt(tail=5, previous=True), {"tailLines": "5", "previous": "true"}),
}


@pytest.mark.parametrize(("excerpt", "query"), EXCERPTS.values(), ids=list(EXCERPTS))
def test_the_api_server_is_asked_for_it(excerpt: Excerpt, query: dict[str, str]) -> None:
    assert excerpt.query() == query
