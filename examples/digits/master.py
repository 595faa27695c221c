"""`python -m examples.digits.master`: deals out the data, looks after the parameter servers, ends the job.

Knows of trainers only what their connections tell: they come and go as they like. Once a tick it takes back the shards
of silent trainers, gives a parameter server that came back empty its parameters, and leaves a note of its queue with
the parameter servers; every few seconds it writes a checkpoint. Started again, it goes on from the note, else from the
checkpoint, else from the beginning. Ends with 0 when the accuracy on the test set reaches --target, else with 1; with
143 on SIGTERM, after a last checkpoint.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from examples.digits import checkpoint, data
from examples.digits.desk import Desk, EpochEnd, Learning
from examples.digits.env import BadEnvironment, Place, need, read_place
from examples.digits.fleet import Fleet
from examples.digits.model import accuracy, initial_parameters, to_floats
from examples.digits.report import report
from examples.digits.rpc import CannotListen, Refused, Server, Unreachable, listen, on_asked_to_end, say
from examples.digits.taskqueue import TaskQueue
from examples.digits.wire import ProtocolError

DEFAULT_PORT = 7000
TICK_SECONDS = 0.2
NOTE_SECONDS = 0.5
FAREWELL_SECONDS = 3.0
"""How long the master waits for trainers to come and hear that the training is over."""

_TROUBLE = (Unreachable, Refused, ProtocolError)


class Master:
    def __init__(self, place: Place, options: argparse.Namespace) -> None:
        self.stop = threading.Event()
        self._place = place
        self._options = options
        # No patience: the main loop tries again a tick later, and has other things to do meanwhile.
        self._fleet = Fleet(need(place.pservers, "PSERVER_HOSTS"), patience_seconds=0)
        self._train, self._test = data.load()
        self._queue = TaskQueue(
            shards=data.shard_count(len(self._train.digits), options.shard_rows),
            epochs=options.epochs,
            lease_seconds=options.lease_seconds,
        )
        self._desk = Desk(
            self._queue, self._train, Learning(options.shard_rows, options.seed, options.first_rate, options.last_rate)
        )
        self._fresh = initial_parameters(options.seed)
        self._snapshot: checkpoint.Checkpoint | None = None
        self._away: dict[int, str] = {}
        """Parameter servers that did not answer last time, and why."""
        self._noted_seconds = self._saved_seconds = 0.0

    def run(self) -> int:
        """The exit code. Raises BadCheckpoint and CannotListen."""
        if self._options.checkpoint_dir:
            self._snapshot = checkpoint.load(self._options.checkpoint_dir)
        if not self._find_state():
            return 128 + signal.SIGTERM
        server = Server(self._desk, listen(self._place, DEFAULT_PORT))
        say(
            f"{self._place.name} serves on {server.address}: {len(self._train.digits)} digits to learn from in "
            f"{self._queue.shards} shards, {len(self._test.digits)} to test with"
        )
        ended = self._train_epochs()
        reached = self._say_farewell() if ended else None
        if reached is not None and self._options.stay:
            say(f"accuracy {reached:.2f}")
            self.stop.wait()
        server.close()
        if reached is None:
            self._save()
            say("asked to end before the training was over")
            return 128 + signal.SIGTERM
        if reached < self._options.target:
            say(f"{reached:.4f} is below the target of {self._options.target}: more --epochs may help")
        if not self._options.stay:
            say(f"accuracy {reached:.2f}")
        return 0 if reached >= self._options.target else 1

    def _find_state(self) -> bool:
        """Waits for all parameter servers, then goes on from what they or the checkpoint know. False when stopped."""
        begin, told = time.monotonic(), False
        while not self.stop.is_set():
            notes = [self._look_at(index) for index in range(len(self._fleet.clients))]
            if not self._away:
                break
            if not told and time.monotonic() - begin > 2:
                told = True
                say("waiting for " + ", ".join(self._away.values()))
            self.stop.wait(TICK_SECONDS)
        else:
            return False
        note = next((note for note in notes if note), None)
        state = note or (self._snapshot.queue if self._snapshot else None)
        if state:
            try:
                self._queue.restore(dict(state))
            except (ValueError, KeyError, TypeError) as error:
                say(f"starts afresh, what was left of an earlier training does not fit: {error}")
            else:
                source = "the parameter servers' note" if note else "the checkpoint"
                say(f"goes on from {source}: {self._queue.epoch} of {self._queue.epochs} epochs are done")
        return True

    def _train_epochs(self) -> bool:
        """True when all epochs are done, False when stopped."""
        unreported: list[EpochEnd] = []
        while not self.stop.is_set():
            finished = self._desk.finished()
            unreported += self._desk.wait_for_epochs(0 if finished else TICK_SECONDS)
            now = time.monotonic()
            self._desk.tick(now)
            # An epoch that people have been told of is one that a restarted master knows of.
            self._keep(now, note_at_once=bool(unreported))
            if unreported and (measured := self._measure()) is not None:
                for end in unreported:
                    say(
                        f"epoch {end.epoch}/{self._queue.epochs}  accuracy {measured:.2f}  "
                        f"trainers {end.trainers}  shards/s {end.shards_per_second:.0f}"
                    )
                self._report(unreported[-1], measured)
                unreported.clear()
            if finished and not unreported:
                return True
        return False

    def _report(self, end: EpochEnd, measured: float) -> None:
        """To the operator: `tj describe` shows it, and the autoscaler learns how fast so many trainers are."""
        left = (self._queue.epochs - end.epoch) * self._queue.shards
        speed = max(end.shards_per_second, 0.001)
        report(
            100 * end.epoch // self._queue.epochs,
            int(left / speed),
            accuracy=round(measured, 4),
            samples_per_second=round(speed * self._options.shard_rows, 3),
            replicas=max(end.trainers, 1),
        )

    def _say_farewell(self) -> float | None:
        """The final accuracy, once trainers and parameter servers know that it is over. None when stopped before."""
        measured = self._measure()
        while measured is None:
            if self.stop.wait(TICK_SECONDS):
                return None
            self._keep(time.monotonic())
            measured = self._measure()
        self._save()
        deadline = time.monotonic() + FAREWELL_SECONDS
        while self._desk.sessions() and time.monotonic() < deadline:
            time.sleep(0.05)
        for client in self._fleet.clients if not self._options.stay else ():
            try:
                client.call("finish")
            except _TROUBLE as error:
                say(f"could not be told that it is over: {error}")
            client.close()
        return measured

    def _measure(self) -> float | None:
        """Accuracy on the test set, None when some parameter server does not answer now."""
        try:
            pulled = self._fleet.pull()
        except _TROUBLE:
            return None
        return accuracy(pulled.parameters, to_floats(self._test.pixels), self._test.digits)

    def _keep(self, now_seconds: float, *, note_at_once: bool = False) -> None:
        """Looks after parameter servers, and after what a restarted master or parameter server will need."""
        if note_at_once or now_seconds - self._noted_seconds >= NOTE_SECONDS:
            self._noted_seconds = now_seconds
            for index in range(len(self._fleet.clients)):
                self._look_at(index, note=self._desk.snapshot())
        if now_seconds - self._saved_seconds >= self._options.checkpoint_seconds:
            self._saved_seconds = now_seconds
            self._save()

    def _look_at(self, index: int, note: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Restores server `index` if it is empty, leaves `note` with it; what note it had."""
        client = self._fleet.clients[index]
        try:
            status = self._fleet.status(index)
            if status["empty"]:
                self._restore(index)
            if note is not None:
                self._fleet.note(index, note)
        except _TROUBLE as error:
            if index not in self._away and self._noted_seconds:
                say(f"- {error}")
            self._away[index] = f"{client.peer} at {client.address}"
            return None
        self._away.pop(index, None)
        found = status["note"]
        return dict(found) if found else None

    def _restore(self, index: int) -> None:
        known = self._snapshot
        if known is not None and index < len(known.exports) and self._fits(index, known):
            self._fleet.restore(index, known.exports[index], known.versions[index])
            say(f"+ {self._fleet.clients[index].peer} has its parameters again, of {known.versions[index]} updates")
        else:
            self._fleet.restore(index, self._fleet.share(self._fresh, index), 0)

    def _fits(self, index: int, known: checkpoint.Checkpoint) -> bool:
        mine = self._fleet.share(self._fresh, index)
        held = known.exports[index]
        return all(name in held and held[name].shape == array.shape for name, array in mine.items())

    def _save(self) -> None:
        """A new snapshot, in memory and, with --checkpoint-dir, on disk. Does nothing while a server is away."""
        # The queue first: what it counts as done is then surely in the parameters. The rest is trained on again.
        queue = self._desk.snapshot()
        try:
            exports = [self._fleet.export(index) for index in range(len(self._fleet.clients))]
        except _TROUBLE:
            return
        self._snapshot = checkpoint.Checkpoint(
            queue, tuple(int(e.fields["version"]) for e in exports), tuple(dict(e.arrays) for e in exports)
        )
        if self._options.checkpoint_dir:
            checkpoint.save(self._options.checkpoint_dir, self._snapshot)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m examples.digits.master", description=about)
    add = parser.add_argument
    add("--epochs", type=int, default=20, help="passes over the training set (default %(default)s)")
    add("--shard-rows", type=int, default=24, help="rows in a shard (default %(default)s)")
    add("--target", type=float, default=0.95, help="test accuracy to end with 0, else 1 (default %(default)s)")
    add("--lease-seconds", type=float, default=5, help="silence after which a shard goes to another trainer")
    add("--checkpoint-seconds", type=float, default=2, help="how often to write a checkpoint (default %(default)s)")
    add("--checkpoint-dir", type=Path, help="where; to go on from when the master and all parameter servers are lost")
    add("--seed", type=int, default=1, help="of the initial parameters and the shards (default %(default)s)")
    add("--first-rate", type=float, default=0.006, help="learning rate at the start (default %(default)s)")
    add("--last-rate", type=float, default=0.0003, help="learning rate at the end (default %(default)s)")
    add(
        "--stay",
        action="store_true",
        help="tell trainers that it is over until asked to end: for a master that is kept alive",
    )
    options = parser.parse_args(arguments)
    for name in ("epochs", "shard_rows", "lease_seconds", "checkpoint_seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} is {getattr(options, name)}: it must be above 0")
    if not 0 <= options.target <= 1:
        parser.error(f"--target is {options.target}: it must be from 0 to 1, for example 0.95")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        master = Master(read_place("master"), options)
        on_asked_to_end(master.stop.set)
        return master.run()
    except (BadEnvironment, CannotListen, checkpoint.BadCheckpoint) as error:
        print(f"master: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
