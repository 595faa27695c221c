"""`python -m examples.digits.trainer`: asks the master for a shard, learns from it, pushes gradients; again and again.

Holds nothing that matters: it may be killed at any time, and another one joins at any time. Ends with 0 only when the
master says that the training is over. On SIGTERM (scaled down, evicted, drained) it stops after the minibatch in hand,
gives its shard back, so that no other waits for the lease, and ends with 143: a pod that ends with 0 has done its work,
and an operator would rightly not replace it when it was evicted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np

from examples.digits.env import BadEnvironment, Place, need, read_place
from examples.digits.fleet import Fleet
from examples.digits.model import loss_and_gradients, to_floats
from examples.digits.rpc import Client, Refused, Stopped, Unreachable, on_asked_to_end, say
from examples.digits.wire import Message, ProtocolError


@dataclass(slots=True)
class Lease:
    """The shard in hand: ours for `seconds` after it was last renewed."""

    token: str
    seconds: float
    renewed_seconds: float
    valid: bool = True


class Trainer:
    def __init__(self, place: Place, *, batch_rows: int, shard_seconds: float, patience_seconds: float) -> None:
        self.stop = threading.Event()
        self._name = place.name
        self._batch_rows = batch_rows
        self._shard_seconds = shard_seconds
        self._rng = np.random.default_rng()
        masters, pservers = need(place.masters, "MASTER_HOSTS"), need(place.pservers, "PSERVER_HOSTS")
        self._master = Client("master", masters[0], patience_seconds=patience_seconds, stop=self.stop)
        self._pservers = Fleet(
            pservers, patience_seconds=patience_seconds, stop=self.stop, while_waiting=self._renew_when_due
        )
        self._address = masters[0]
        self._lease: Lease | None = None

    def run(self) -> int:
        """The exit code. Raises Unreachable, Refused and ProtocolError."""
        say(f"{self._name} asks {self._address} for work")
        shards = 0
        try:
            while not self.stop.is_set():
                task = self._master.call("next", trainer=self._name)
                if task.op == "finish":
                    say(f"{self._name} finished: {shards} shards")
                    return 0
                if task.op == "task" and self._learn(task):
                    self._master.call("done", trainer=self._name, token=task.fields["token"])
                    shards += 1
        except Stopped:
            pass
        self._leave()
        say(f"{self._name} was asked to end: {shards} shards done, the one in hand given back")
        return 128 + signal.SIGTERM

    def _learn(self, task: Message) -> bool:
        """Trains on the shard for as long as `shard_seconds` at least. False when the lease was lost under way."""
        begin = time.monotonic()
        self._lease = lease = Lease(str(task.fields["token"]), float(task.fields["lease_seconds"]), begin)
        pixels, digits = to_floats(task.arrays["pixels"]), task.arrays["digits"]
        batches = [slice(i, i + self._batch_rows) for i in range(0, len(digits), self._batch_rows)]
        for number, rows in enumerate(batches, 1):
            seen = self._pservers.pull()
            _, gradients = loss_and_gradients(seen.parameters, pixels[rows], digits[rows])
            self._pservers.push(gradients, seen, float(task.fields["learning_rate"]))
            # Spread over the batches, and a little uneven, as work is: or all trainers would march in step.
            due = begin + self._shard_seconds * number / len(batches) * self._rng.uniform(0.9, 1.1)
            while (left := due - time.monotonic()) > 0:
                if self.stop.wait(min(left, lease.seconds / 4)):
                    raise Stopped
                self._renew_when_due()
            if self.stop.is_set():
                raise Stopped
            if not lease.valid:
                return False
        return True

    def _renew_when_due(self) -> None:
        lease, now = self._lease, time.monotonic()
        if lease is not None and lease.valid and now - lease.renewed_seconds > lease.seconds / 3:
            lease.renewed_seconds = now
            lease.valid = bool(self._master.call("renew", trainer=self._name, token=lease.token).fields["valid"])

    def _leave(self) -> None:
        # Its own connection: the other may be in the middle of a frame. One try: the lease ends by itself too.
        farewell = Client("master", self._address, patience_seconds=0)
        try:
            farewell.call("leave", trainer=self._name)
        except (Unreachable, Refused, ProtocolError):
            pass
        finally:
            farewell.close()


def main(arguments: list[str] | None = None) -> int:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m examples.digits.trainer", description=about)
    parser.add_argument("--batch-rows", type=int, default=12, help="rows in a minibatch (default %(default)s)")
    parser.add_argument(
        "--shard-seconds", type=float, default=0.0,
        help="least time for a shard, standing for a bigger model (default %(default)s: as fast as it goes)",
    )  # fmt: skip
    parser.add_argument(
        "--patience-seconds", type=float, default=120.0,
        help="how long to wait for a master or parameter server that does not answer (default %(default)s)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.batch_rows < 1 or options.shard_seconds < 0:
        parser.error("--batch-rows must be 1 or more, --shard-seconds 0 or more")
    try:
        trainer = Trainer(
            read_place("trainer"),
            batch_rows=options.batch_rows,
            shard_seconds=options.shard_seconds,
            patience_seconds=options.patience_seconds,
        )
        on_asked_to_end(trainer.stop.set)
        return trainer.run()
    except (BadEnvironment, Unreachable, Refused, ProtocolError) as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadEnvironment) else 1


if __name__ == "__main__":
    sys.exit(main())
