"""Kill -9 Redis under running workers, again and again, and measure how long until they work again.

    python -m benchmarks.redis_restart --rounds 5

Starts its own valkey-server (append-only file, fsync every second), one prefork worker and beat with the project's own
app settings, and a publisher that queues keys as the watcher does. In each round Redis is killed with SIGKILL, is away
for some seconds and comes back. Printed for each round: seconds from Redis' return to the publisher's first success, to
the first pass that a worker ends, and until no more keys wait than half a second of work. Exits 1 when a process died,
a key was lost, or a round took longer than 30 s.

The tasks are the project's own work-queue calls around an empty pass (`benchmarks/support/empty_pass.py`), so what is
measured is Redis, kombu, Celery and the store, not the reconcile.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 30
RESYNC_SECONDS = 5


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--how", choices=["kill", "freeze"], default="kill", help="SIGKILL, or SIGSTOP")
    options.add_argument("--away-seconds", type=float, default=3)
    options.add_argument("--rate", type=float, default=50, help="keys queued a second")
    options.add_argument("--concurrency", default="1")
    given = options.parse_args()
    sys.path.insert(0, str(ROOT))
    from benchmarks.support.valkey import Valkey

    with tempfile.TemporaryDirectory(prefix="tj-restart-") as folder, Valkey(Path(folder), append_only=True) as server:
        env = dict(
            os.environ,
            TJ_REDIS_URL=server.url,
            TJ_RESYNC_SECONDS=str(RESYNC_SECONDS),
            TJ_LOCK_TTL_SECONDS="5",
            PYTHONPATH=str(ROOT),
            TJ_LOG_LEVEL="INFO",
            TJ_TEST_PASSES=str(Path(folder) / "passes"),
        )
        os.environ.update(env)
        run = Run(server, Path(folder), env, given.concurrency)
        try:
            return run.rounds(given.rounds, given.how, given.away_seconds, given.rate)
        finally:
            run.stop()


class Run:
    def __init__(self, server, folder: Path, env: dict[str, str], concurrency: str) -> None:  # type: ignore[no-untyped-def]
        from tjworker.publisher import Publisher
        from tjworker.settings import load_settings
        from tjworker.store.connect import open_store

        self.server = server
        self.folder = folder
        self.store = open_store(server.url, "tj")
        self.publisher = Publisher(load_settings())
        self.queued = 0
        self.refused = 0
        self.successes: list[float] = []
        self.stopping = threading.Event()
        celery = [str(Path(sys.executable).parent / "celery"), "-A", "benchmarks.support.empty_pass"]
        self.processes = {
            name: subprocess.Popen(
                [*celery, *arguments],
                env=env,
                cwd=ROOT,
                stdout=(folder / f"{name}.log").open("wb"),
                stderr=subprocess.STDOUT,
            )
            for name, arguments in {"worker": ["worker", "-c", concurrency], "beat": ["beat"]}.items()
        }
        self.thread: threading.Thread | None = None

    def publish_for_ever(self, rate: float) -> None:
        from tjworker.base import JobKey, Transient

        number = 0
        waiting = False
        while not self.stopping.is_set():
            key = JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/job-{number}")
            try:
                self.publisher.publish(self.store.queue.add([key]))
                if waiting:
                    print(f"    publisher: Redis is back, {self.publisher.waiting} keys waiting", flush=True)
                waiting = False
                number += 1
                self.queued = number
                self.successes.append(time.monotonic())
                self.stopping.wait(1 / rate)
            except Transient as error:
                if not waiting:
                    print(f"    publisher waits: {error.message}", flush=True)
                waiting = True
                self.refused += 1
                self.stopping.wait(0.5)

    def rounds(self, rounds: int, how: str, away_seconds: float, rate: float) -> int:
        self.wait("the first pass", self.ping_work, 60)
        self.thread = threading.Thread(target=self.publish_for_ever, args=(rate,), daemon=True)
        self.thread.start()
        print("Seconds after Redis' return:")
        print("| round | publisher | first pass | backlog done | keys queued so far |")
        print("|---|---|---|---|---|", flush=True)
        bad = False
        for number in range(1, rounds + 1):
            time.sleep(3)
            (self.server.kill if how == "kill" else self.server.freeze)()
            time.sleep(away_seconds)
            (self.server.start if how == "kill" else self.server.thaw)()
            back = time.monotonic()
            ran = self.passes()
            first = self.wait("a pass after the return", lambda ran=ran: self.passes() > ran, 120) - back
            published = next(at for at in self.successes if at > back) - back
            caught_up = self.wait("the backlog to end", lambda: self.missing() <= rate / 2, 120) - back
            bad = bad or max(first, caught_up) > LIMIT_SECONDS
            print(f"| {number} | {published:.1f} | {first:.1f} | {caught_up:.1f} | {self.queued} |", flush=True)
        self.stopping.set()
        self.thread.join()
        self.wait("every key to be done", lambda: self.missing() == 0, 60)
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        print(f"queued {self.queued}, not done {self.missing()}, processes that ended: {dead or 'none'}")
        return 1 if bad or dead or self.missing() else 0

    def ping_work(self) -> bool:
        self.publisher.publish(self.store.queue.add(["aitrainingjobs.elasticdeeplearning.ai/default/warm-up"]))  # type: ignore[list-item]
        return self.passes() > 0

    def passes(self) -> int:
        counter = self.folder / "passes"
        return len(counter.read_text().splitlines()) if counter.exists() else 0

    def missing(self) -> int:
        """Keys that are neither done nor about to be: still queued, held or waiting in the publisher."""
        stats = self.store.queue.stats()
        return stats.queued + stats.running + self.publisher.waiting

    def wait(self, what: str, true, seconds: float) -> float:  # type: ignore[no-untyped-def]
        from tjworker.base import Transient

        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if true():
                    return time.monotonic()
            except Transient:
                pass
            time.sleep(0.05)
        for name in self.processes:
            print(f"--- {name}\n{(self.folder / f'{name}.log').read_text()[-3000:]}")
        raise SystemExit(f"waited {seconds:.0f} s for {what} in vain")

    def stop(self) -> None:
        self.stopping.set()
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(main())
