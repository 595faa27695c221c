"""Logs stay bounded without losing their writer; a probe of a log believes only what is new."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until
from tjworker.cli.errors import UserError
from tjworker.cli.stack import logfile, probes, processes, roster
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.processes import identify


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


def test_the_tail_of_a_log_is_its_last_lines_and_nothing_for_a_log_that_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert logfile.tail(log) == []
    log.write_text("1\n2\n3\n")
    assert logfile.tail(log, lines=2) == ["2", "3"]


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
    """Two `tj up` at the same moment: a message that says `kill unknown` helps nobody."""
    paths = StatePaths(tmp_path)
    with paths.lock.open("a+") as owner:
        assert roster.try_lock(owner)

        def a_moment_later(_seconds: float) -> None:
            owner.write(f"{os.getppid()}\n")
            owner.flush()

        monkeypatch.setattr("tjworker.cli.stack.roster.time.sleep", a_moment_later)
        with pytest.raises(UserError, match=rf"a stack already runs in .* \(pid {os.getppid()}\)"):
            roster.take_lock(paths)


def test_a_roster_that_cannot_be_read_names_nobody(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    assert roster.read_roster(paths.roster) == ("", {})
    for garbage in ("", "{", "[]", '{"services": 3}', '{"run": "x", "services": {"a": {}}}'):
        paths.roster.write_text(garbage)
        assert roster.read_roster(paths.roster) == ("", {})


def test_a_mark_belongs_to_its_own_folder_and_run(tmp_path: Path) -> None:
    ours, beside = tmp_path / "a", tmp_path / "a#b"
    sleeper = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(60)"],
        env={processes.MARKER: processes.mark(beside, "r1")},
    )
    try:
        until("it is marked", lambda: len(processes.marked(beside)) == 1)
        assert processes.marked(ours) == [], "a folder whose name begins alike is another folder"
        assert [p.pid for p in processes.marked(beside, run_id="r1")] == [sleeper.pid]
        assert processes.marked(beside, run_id="r") == []
        assert processes.marked(beside, excluding="r1") == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_pid_that_was_given_to_another_process_is_not_ours(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    me = identify(os.getppid())
    assert me is not None
    stranger = type(me)(me.pid, "1")
    roster.write_roster(paths, "run", {"a": stranger})
    assert roster.leftovers(paths) == []
