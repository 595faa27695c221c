"""Disturb the operator, one way after another, while jobs begin, run, restart and end; hold the ends against the
undisturbed.

    make chaos                       # all of it, about 100 minutes; SHARE=0.1 for a tenth of the numbers
    make chaos CHAOS_ARGS="--only 'redis wiped' --only 'processes killed' --seed 7"
    make chaos CHAOS_ARGS="--soak-seconds 7200"      # random kills and wipes for so long: the same ends, nothing grows

For each way: a wave of jobs of every scenario, of both kinds, begins meanwhile, and four stand before, during and
after. Held then: each job ends within two minutes of the mending, which is when Kubernetes' own controllers make pods
again (`probe.py`); its end, counts, conditions, pods left and pods ever made are those of that scenario undisturbed
(played twice, which must agree); no pod of a standing job is another one than before; Redis holds what the API server
has, record for record. Exits 1 when one of these does not hold, or when a watcher or a beat has ended by itself;
workers that have are told. `random histories` is a row of its own kind (`histories.py`): any edits and failures, then
calm.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane import ControlPlane
from tests.chaos.disturbances import DISTURBANCES, LEFT_OUT, Chaos
from tests.chaos.histories import Histories
from tests.chaos.probe import Probe
from tests.chaos.soak import soak
from tests.chaos.system import WORKERS, NotInTimeError, System
from tests.chaos.watching import PodLog
from tests.chaos.waves import EVERY_SECONDS, STANDS, Wave
from tests.e2e.control_plane.api import open_transport

STAND_SECONDS = 120.0
BACK_SECONDS, WORTH_TELLING_SECONDS = 180.0, 5.0
END_SECONDS = 120.0
AGREE_SECONDS = 30.0
HISTORIES, FULL_HISTORIES = "random histories", 200
SOAK_EVERY_SECONDS = 5.0
"""A job begins so often in a soak: it asks what grows with time, not what a crowd does."""
Ends = Mapping[str, Any]


@dataclass(slots=True)
class Row:
    name: str
    jobs: int = 0
    divergent: list[str] = field(default_factory=list)
    changed_pods: list[str] = field(default_factory=list)
    recovery_seconds: float = 0.0
    ended_alone: int = 0
    note: str = ""
    trouble: str = ""

    @property
    def good(self) -> bool:
        return not (self.divergent or self.changed_pods or self.trouble)

    def why(self) -> str:
        return "\n  ".join([f"{self.name}: {self.trouble}", *self.divergent, *self.changed_pods])

    def __str__(self) -> str:
        verdict = "good" if self.good else "**BAD**"
        cells = (
            self.name,
            self.jobs,
            len(self.divergent),
            len(self.changed_pods),
            f"{self.recovery_seconds:.0f} s",
            self.ended_alone,
            verdict,
            self.note,
        )
        return f"| {' | '.join(str(cell) for cell in cells)} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--share", type=float, default=1.0, help="of the full numbers of kills, restarts, seconds")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options.add_argument(
        "--only", action="append", choices=[*DISTURBANCES, HISTORIES], help="this one; may be said again"
    )
    options.add_argument(
        "--soak-seconds", type=float, default=0, help="instead of the table: random trouble for so long"
    )
    given = options.parse_args()
    print(f"seed {given.seed}, share {given.share}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tj-chaos-")))
        plane = stack.enter_context(ControlPlane())
        system = System(plane, folder, given.seed)
        stack.callback(system.stop)
        system.start()
        log = PodLog(plane.kubeconfig)
        log.start()
        stack.callback(log.stop)
        run = Run(system, log, given.share, given.seed)
        if given.soak_seconds:
            return run.soak(given.soak_seconds)
        return run.table([name for name in (*DISTURBANCES, HISTORIES) if not given.only or name in given.only])


class Run:
    def __init__(self, system: System, log: PodLog, share: float, seed: int) -> None:
        self._system = system
        self._log = log
        self._share = share
        self._seed = seed
        self._want: dict[str, Ends] = {}

    def wave(self, name: str, every_seconds: float = EVERY_SECONDS, without: Collection[str] = ()) -> Wave:
        return Wave(
            open_transport(self._system.plane.kubeconfig), self._log, f"chaos-{name}", every_seconds, without=without
        )

    def soak(self, seconds: float) -> int:
        if not self._undisturbed():
            return 2
        return soak(
            self._system, self.wave("soak", SOAK_EVERY_SECONDS), random.Random(self._seed), seconds, self._divergent
        )

    def table(self, names: list[str]) -> int:
        began = time.monotonic()
        judged = names != [HISTORIES]  # those are held against what they ask for, not against an undisturbed run
        rows = self._undisturbed() if judged else []
        if judged and not rows:
            return 2
        print(
            "\n| what | jobs | other ends | pods changed | all ended after | processes that ended by themselves | | |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            sep="\n",
            flush=True,
        )
        bad = []
        for number, name in enumerate(n for n in names if n != "nothing"):
            row = self._histories() if name == HISTORIES else self._row(name, f"{number}")
            print(row, flush=True)
            if not row.good:
                bad.append(row)
                print(row.why(), file=sys.stderr, flush=True)  # at once: the table may be an hour's
        for row in bad:
            print(f"\n{row.why()}")
        for words in (*self._system.ended_alone, *self._system.plane_ended):
            print(f"\n{words}")
        print(
            f"\n{time.monotonic() - began:.0f} s, seed {self._seed}, {len(bad)} bad; the pod log had {self._log.gaps}"
            " gaps"
        )
        return 1 if bad else 0

    def _undisturbed(self) -> list[Row]:
        """The two rows in which nothing is done; none, and what was wrong is printed, when those do not agree
        already."""
        rows = [self._row("nothing", f"undisturbed-{n}") for n in (1, 2)]
        if all(row.good for row in rows):
            return rows
        print("undisturbed, and yet:", *(line for row in rows for line in (row, row.trouble, *row.divergent)), sep="\n")
        return []

    def _row(self, name: str, label: str) -> Row:
        row, wave = Row(name), self.wave(label, without=LEFT_OUT.get(name, ()))
        alone = len(self._system.ended_alone)
        try:
            self._play(row, wave)
        except NotInTimeError as error:
            row.trouble += f"{error}; unfinished: {wave.unfinished_words()}"
        except Exception as error:  # noqa: BLE001  one way's trouble is told with the others
            row.trouble += f"{type(error).__name__}: {error}"
        finally:
            wave.fed()
            wave.close()
        ended = self._system.ended_alone[alone:]
        row.ended_alone = len(ended)
        # A Celery worker ends when a child of it is killed while it starts. Nothing makes a watcher or a beat end.
        row.trouble += "".join(f"{words.partition(':')[0]}. " for words in ended if not words.startswith(WORKERS))
        return row

    def _histories(self) -> Row:
        """Row 10 with real processes. The jobs are not of the scenarios above, and what they come to is not held
        against others."""
        row, began = Row(HISTORIES, max(1, round(FULL_HISTORIES * self._share))), time.monotonic()
        try:
            histories = Histories(self._system, random.Random(f"{self._seed} {HISTORIES}"), row.jobs)
            row.divergent, row.recovery_seconds, row.note = histories.play()
        except Exception as error:  # noqa: BLE001  as of the other rows
            row.trouble = f"{type(error).__name__}: {error}"
        row.note += f"; {time.monotonic() - began:.0f} s"
        return row

    def _play(self, row: Row, wave: Wave) -> None:
        wave.begin()
        self._system.until(f"{len(STANDS)} jobs stand", wave.stand, STAND_SECONDS)
        stood = wave.standing_uids()
        wave.feed()
        try:
            rng = random.Random(f"{self._seed} {row.name}")
            row.note = DISTURBANCES[row.name](Chaos(self._system, rng, self._share, wave.keys()))
        except NotInTimeError as error:
            row.trouble = f"{error}. "
        finally:
            wave.fed()
        probe = Probe(wave)
        probe.begin()
        away = self._system.until("Kubernetes' own controllers make pods", probe.answered, BACK_SECONDS)
        if away >= WORTH_TELLING_SECONDS:
            row.note += f"; Kubernetes' own controllers were back after {away:.0f} s"
        mended = time.monotonic()
        self._system.until("every job has ended", wave.ended, END_SECONDS)
        row.recovery_seconds, row.jobs = time.monotonic() - mended, len(wave.begun)
        row.divergent = self._divergent(wave, wave.begun)
        self._compare_projection(row)
        row.changed_pods += [pod for pod, uids in wave.standing_uids().items() if uids != stood.get(pod)]

    def _compare_projection(self, row: Row) -> None:
        try:
            self._system.until(
                "Redis holds what the API server has", lambda: not self._system.projection_differs(), AGREE_SECONDS
            )
        except NotInTimeError as error:
            found = self._system.projection_differs()
            row.trouble += f"{error}: {len(found)} differ: {'; '.join(found[:5])}"

    def _divergent(self, wave: Wave, jobs: Iterable[str]) -> list[str]:
        """Of these jobs, which have ended: those whose end is not that of the first of their scenario, and in what."""
        self._system.until("the pod log is up to date", lambda: self._log.caught_up_with(wave.version()), 60)
        ends, found = wave.ends(jobs), []
        for job, end in ends.items():
            want = self._want.setdefault(wave.begun[job], end)
            if end != want:
                found.append(
                    f"{job}: "
                    + "; ".join(
                        f"{what} {end[what]}, undisturbed {want[what]}" for what in want if end[what] != want[what]
                    )
                )
        return found


if __name__ == "__main__":
    sys.exit(main())
