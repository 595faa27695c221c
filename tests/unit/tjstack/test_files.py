"""Logs stay bounded without losing their writer; a probe of a log believes only what is new."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tjstack import lock, logfile, probes
from tjstack.paths import StatePaths
from tjworker.cli.errors import UserError


def test_a_log_that_is_too_long_moves_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.log"
    writer = logfile.open_log(log)
    try:
        os.write(writer, b"old line\n" * 20)
        assert not logfile.bound(log, max_bytes=1000)
        assert logfile.bound(log, max_bytes=100)
        os.write(writer, b"new line\n")
    finally:
        os.close(writer)
    assert log.read_text() == "new line\n"
    assert log.with_name("a.log.1").read_text().startswith("old line\n")


def test_a_probe_of_a_log_does_not_believe_what_an_earlier_process_wrote(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("worker1@host ready.\n")
    probe = probes.log_says(log, r"worker1@\S+ ready")
    assert not probe()
    with log.open("a") as file:
        file.write("worker1@host ready.\n")
    assert probe()
    assert not probe(), "matched once: a restarted process must say it again"
    log.write_text("worker1@host ready.\n")
    assert probe(), "a log that was emptied is read from its start"


def test_an_owner_that_has_the_folder_and_has_not_written_its_name_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two `tj up` at the same moment: a message that says `kill unknown` helps neither user."""
    paths = StatePaths(tmp_path)
    with paths.lock.open("a+") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)

        def a_moment_later(_seconds: float) -> None:
            owner.write(f"{os.getppid()}\n")
            owner.flush()

        monkeypatch.setattr("tjstack.lock.time.sleep", a_moment_later)
        with pytest.raises(UserError, match=rf"a stack already runs in .* \(pid {os.getppid()}\)"):
            lock.take(paths)


def test_an_owner_that_was_killed_and_that_its_parent_has_not_reaped_is_no_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its warden still holds the lock for a moment; in a container without an init the zombie stays for good."""
    paths = StatePaths(tmp_path)
    zombie = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    try:
        with paths.lock.open("a+") as wardens:
            fcntl.flock(wardens, fcntl.LOCK_EX)
            wardens.write(f"{zombie.pid}\n")
            wardens.flush()
            monkeypatch.setattr("tjstack.lock.time.sleep", lambda _: fcntl.flock(wardens, fcntl.LOCK_UN))
            lock.take(paths).close()
    finally:
        zombie.wait()
