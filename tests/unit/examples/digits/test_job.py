"""The job as real processes on loopback: whichever is killed, the job ends, and with what it set out to learn."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.digits.local import LocalJob

DEADLINE_SECONDS = 240.0


class Played:
    """A LocalJob and all that its replicas have said."""

    def __init__(self, *master: str, trainers: int = 2, shard_seconds: float = 0.02) -> None:
        self.lines: list[str] = []
        self.job = LocalJob(
            trainers=trainers,
            arguments={"master": master, "trainer": [f"--shard-seconds={shard_seconds}"]},
            say=self.lines.append,
        )

    def said(self, pattern: str) -> Callable[[], bool]:
        return lambda: any(re.search(pattern, line) for line in list(self.lines))

    def until(self, *conditions: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not all(condition() for condition in conditions):
            assert self.job.step() is None, "the job ended too early:\n" + "\n".join(self.lines)
            assert time.monotonic() < deadline, "it never came to that:\n" + "\n".join(self.lines)
            time.sleep(0.02)

    def end(self) -> int:
        return self.job.run(DEADLINE_SECONDS)

    def master_lines(self) -> list[str]:
        return [line.partition(" | ")[2] for line in self.lines if line.startswith("master-0")]

    def accuracy(self) -> float:
        last = self.master_lines()[-1]
        assert re.fullmatch(r"accuracy \d\.\d\d", last), last
        return float(last.split()[1])


@pytest.mark.long
def test_a_killed_trainer_is_made_up_for_and_new_ones_join_and_leave_at_once() -> None:
    play = Played("--epochs=9", "--target=0.94")
    with play.job as job:
        play.until(play.said("epoch 2/9 .* trainers 2 "))
        job.processes["trainer-1"].kill()
        play.until(play.said(r"- trainer-1 is gone.*; trainers 1"), lambda: "trainer-1" in job.processes)
        # No trainer learns anything until the new ones are there: how fast a process starts is the machine's affair.
        job.processes["pserver-0"].send_signal(signal.SIGSTOP)
        job.trainers = 5
        play.until(*(play.said(rf"\+ trainer-{index} joins") for index in (2, 3, 4)))
        job.processes["pserver-0"].send_signal(signal.SIGCONT)
        play.until(play.said("epoch .* trainers 5 "))
        job.trainers = 2
        play.until(lambda: all(job.exit_codes.get(f"trainer-{index}") for index in (2, 3, 4)))
        assert play.end() == 0
    assert play.accuracy() >= 0.94
    assert job.exit_codes["trainer-1"] == [-9, 0], "killed, then told that the training is over"
    assert job.exit_codes["trainer-4"] == [143], "asked to leave before the end: it did not complete"
    assert play.said("trainer-4 leaves")()
    for name in ("master-0", "pserver-0", "pserver-1", "trainer-0"):
        assert job.exit_codes[name] == [0], name
    epochs = [line.split()[1] for line in play.master_lines() if line.startswith("epoch")]
    assert epochs == [f"{n}/9" for n in range(1, 10)]


@pytest.mark.long
def test_killed_servers_go_on_where_they_were(tmp_path: Path) -> None:
    checkpoints = (f"--checkpoint-dir={tmp_path}", "--checkpoint-seconds=0.2")
    play = Played("--epochs=9", "--target=0.94", *checkpoints, trainers=3, shard_seconds=0.01)
    with play.job as job:
        play.until(play.said("epoch 2/9"))
        job.processes["pserver-0"].kill()
        play.until(play.said(r"pserver-0 has its parameters again, of [1-9]\d* updates"), play.said("epoch 4/9"))
        job.processes["master-0"].kill()
        play.until(play.said(r"goes on from the parameter servers' note: [4-9] of 9"))
        epochs_before = len([line for line in play.master_lines() if line.startswith("epoch")])
        play.until(lambda: len([line for line in play.master_lines() if line.startswith("epoch")]) > epochs_before)
        for name in ("master-0", "pserver-0", "pserver-1"):
            job.processes[name].kill()
        play.until(play.said(r"goes on from the checkpoint: [4-9] of 9"))
        assert play.end() == 0
    assert play.accuracy() >= 0.94
    assert job.exit_codes["master-0"] == [-9, -9, 0]
    assert job.exit_codes["pserver-0"] == [-9, -9, 0]
    assert job.exit_codes["trainer-0"] == [0], "trainers wait for servers, they do not die of it"


@pytest.mark.long
def test_a_trainer_that_falls_silent_loses_its_shard_and_one_that_waits_does_not() -> None:
    play = Played("--epochs=5", "--target=0.9", "--lease-seconds=8", shard_seconds=0.06)
    silence = "- trainer-1 is silent, shard .* goes back to the queue; trainers 1"
    silent = play.said(silence)
    with play.job as job:
        for epoch in (1, 2, 3):
            play.until(play.said(f"epoch {epoch}/5"))
            job.processes["trainer-1"].send_signal(signal.SIGSTOP)
            # Between two shards it holds none, and the others end the epoch without it: once more, then.
            play.until(play.said(f"{silence}|epoch {epoch + 1}/5"))
            job.processes["trainer-1"].send_signal(signal.SIGCONT)
            if silent():
                break
        assert silent(), "stopped three times, and never with a shard in hand: " + "\n".join(play.lines)
        play.until(play.said(f"epoch {epoch + 1}/5"))
        # A server that hangs longer than a lease: no trainer can work, yet all are there.
        job.processes["pserver-0"].send_signal(signal.SIGKILL)
        play.until(play.said("pserver-0 has its parameters again"))
        assert play.end() == 0
    assert not play.said("trainer-0 is silent")()
    assert job.exit_codes["trainer-1"] == [0]
