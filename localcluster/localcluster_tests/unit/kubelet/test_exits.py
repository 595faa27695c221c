"""The thread that reports ends: each once, and nothing after its own end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from localcluster.kubelet.exits import Exits
from localcluster_tests.support.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="has no pidfds")


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.fixture
def exits(reported: list[str]) -> Iterator[Exits]:
    one = Exits(reported.append)
    yield one
    one.close()


def test_the_end_of_a_process_and_of_a_pipe_are_told_once(exits: Exits, reported: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        exits.watch_process(process.pid, "process")
        read, write = os.pipe()
        exits.watch_end(read, "pipe")
        os.close(write)
        until("the pipe's end is reported", lambda: reported == ["pipe"])
    until("the process' end is reported", lambda: reported == ["pipe", "process"])
    os.close(read)


def test_a_process_that_is_not_there_has_ended(exits: Exits, reported: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        pass
    exits.watch_process(process.pid, "gone")
    until("it is reported", lambda: reported == ["gone"])


def test_once_closed_it_writes_into_nobody_elses_file(exits: Exits) -> None:
    """Its own descriptors are closed, and the kernel soon reuses their numbers."""
    exits.close()
    until("its thread has ended", lambda: not exits._thread.is_alive())
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.dup2(write, exits._wake_write)
    other_read, other_write = os.pipe()
    exits.watch_end(other_read, "late")
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    for fd in {read, write, exits._wake_write, other_read, other_write}:
        os.close(fd)
