"""What a worker's child tells its main process is short, whatever has happened, and its tasks end in time."""

from __future__ import annotations

import pickle
import select
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from billiard import pool
from billiard.reduction import ForkingPickler
from celery.app.trace import build_tracer
from celery.exceptions import Retry, SoftTimeLimitExceeded

from tjworker.app import make_app
from tjworker.base import Terminal, Transient
from tjworker.settings import Settings
from tjworker.worker import child, tasks
from tjworker.worker.child import BoundedTask, Crashed, Failed, time_limit

assert tasks, "importing it registers how errors are sent"


@pytest.fixture(autouse=True)
def _without_celerys_log(caplog: pytest.LogCaptureFixture) -> None:
    """pytest-xdist cannot pass on what is no text, and Celery logs the errors as they are."""
    caplog.set_level("CRITICAL", "celery.app.trace")


def _deep(frames: int, raise_it: Callable[[], object]) -> object:
    return _deep(frames - 1, raise_it) if frames else raise_it()


def _raise(error: Exception) -> Callable[[], object]:
    def call() -> object:
        try:
            raise ConnectionError(str(error))
        except ConnectionError as before:
            raise error from before

    return call


def traced(run: Callable[[], object]) -> tuple[int, Any, bytes]:
    """(1 for an error, what the main process gets, the message in the pipe), of a task that runs this."""
    app = make_app(Settings())
    app.conf.include = ()

    @app.task(name="work", base=BoundedTask, throws=(Terminal, Failed))  # type: ignore[untyped-decorator,unused-ignore]
    def task() -> object:
        return run()

    told = build_tracer("work", task, app=app)("1", (), {}, {"id": "1"})
    answer = (1, told.retval, 0.1) if told.info else (0, told.retstr, 0.1)
    message = bytes(ForkingPickler.dumps((2, (1 << 40, 0, (True, answer), 1 << 20))))
    return answer[0], pickle.loads(message)[1][2][1][1], message  # noqa: S301  it was made here


TEXTS = {
    "ASCII": "x",
    "of four bytes a character": "\U0001f600",
    "of bytes that are no text": "\udcff",
    "of everything": "'\"\\\U0001f600\udcff\x00",
}


@pytest.mark.parametrize("sentence", TEXTS)
def test_a_result_fits_a_pipe(sentence: str) -> None:
    failed, _, message = traced(lambda: TEXTS[sentence] * 20_000)
    assert (failed, len(message) + 4 <= select.PIPE_BUF) == (0, True)


KINDS: dict[str, tuple[Callable[[str], Exception], type[Exception]]] = {
    "a bug": (ValueError, Crashed),
    "a bug with a value that is no text": (lambda text: KeyError(text.encode(errors="replace")), Crashed),
    "what is expected": (Failed, Failed),
    "what waiting does not cure": (Terminal, Failed),
    "Redis that is away": (Transient, Retry),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("sentence", KINDS)
def test_an_error_fits_a_pipe_and_is_a_line_however_deep_it_was(sentence: str, text: str) -> None:
    make, want = KINDS[sentence]
    failed, info, message = traced(lambda: _deep(50, _raise(make(TEXTS[text] * 20_000))))
    assert (failed, type(info.exception)) == (1, want)
    assert len(message) + 4 <= select.PIPE_BUF
    assert bool(info.traceback) is (want is Crashed), "only that of a bug says something"
    assert info.exc_info[0] is want


def test_a_child_that_leaves_does_not_wait_for_half_a_minute() -> None:
    tries, seconds = pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT, pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_INTERVAL
    assert tries * seconds == pytest.approx(child.LEAVE_SECONDS)


def test_a_task_that_takes_too_long_ends_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "load_settings", lambda: Settings(task_soft_time_limit_seconds=0.05))
    _, info, _ = traced(lambda: threading.Event().wait(60))
    assert str(info.exception) == "took longer than TJ_TASK_SOFT_TIME_LIMIT_SECONDS=0.05"


def test_a_limit_that_runs_out_as_its_block_ends_stays_within_it() -> None:
    """At any moment: between two lines, and while the limit is taken back."""
    raised = 0
    for microseconds in range(1, 400):
        try:
            with time_limit(microseconds / 1e6):
                end = time.perf_counter() + 200e-6
                while time.perf_counter() < end:
                    pass
        except SoftTimeLimitExceeded:
            raised += 1
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert 0 < raised < 400


def test_a_thread_that_is_not_the_main_one_has_no_limit() -> None:
    def run() -> str:
        with time_limit(0.001):
            return "done"

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(run).result() == "done"
