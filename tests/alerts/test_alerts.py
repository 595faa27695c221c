"""Each shipped alert fires when its fault is really there and clears when it is gone, in a real Prometheus:
`make test-alerts`. An operator in another namespace, scraped by the same Prometheus, has no part in it and no alert.

Prints a table: the fault, the alert, the seconds until it fired and until it cleared, of which a minute of the shipped
rules takes one.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.alerts.faults import WAVES, Fault
from tests.alerts.operator import Operator
from tests.alerts.prometheus import Firing, Prometheus, find
from tests.support.promql import expressions
from tests.support.waiting import until

HERE, BESIDE = "tj-system", "tj-beside"
LOOK_SECONDS = 0.5
FIRES_WITHIN_SECONDS = CLEARS_WITHIN_SECONDS = 180.0

pytestmark = [
    pytest.mark.xdist_group("alerts"),
    pytest.mark.skipif("TJ_ALERTS" not in os.environ, reason="minutes with a real Prometheus: make test-alerts"),
    pytest.mark.skipif(find("prometheus") is None, reason="needs prometheus on the PATH, or Debian's apt-get"),
]


@dataclass
class Play:
    """One fault as it is played."""

    sentence: str
    fault: Fault
    began: float = 0.0
    ended: float = 0.0
    fired: dict[str, float] = field(default_factory=dict)
    cleared: dict[str, float] = field(default_factory=dict)

    @property
    def waits_for(self) -> set[str]:
        return set(self.fault.fires) - self.fired.keys()

    @property
    def is_over(self) -> bool:
        return bool(self.fault.cannot) or self.cleared.keys() == set(self.fault.fires)

    def look(self, operator: Operator, firing: set[str]) -> None:
        now = time.monotonic()
        for alert in self.waits_for & firing:
            self.fired[alert] = now - self.began
        if self.ended:
            for alert in self.fired.keys() - firing - self.cleared.keys():
                self.cleared[alert] = now - self.ended
        elif not self.waits_for:
            self.fault.ends(operator)
            self.ended = time.monotonic()
        else:
            self.fault.lasts(operator)

    def rows(self) -> Iterator[str]:
        for alert in self.fault.fires:
            if self.fault.cannot:
                yield f"{alert:<22}{self.sentence:<60}{self.fault.cannot}"
            else:
                seconds = [f"{at[alert]:>8.1f}" if alert in at else "   never" for at in (self.fired, self.cleared)]
                yield f"{alert:<22}{self.sentence:<60}{seconds[0]}{seconds[1]}"


class Stage:
    """Two operators under one Prometheus."""

    def __init__(self, folder: Path) -> None:
        self.here = Operator(HERE, folder, watchers=2, workers=2)
        self.beside = Operator(BESIDE, folder, watchers=1, workers=1)
        self.prometheus = Prometheus(folder, [HERE, BESIDE])
        self.began = time.time()
        self.strays: set[Firing] = set()
        """Alerts of the operator that nothing has happened to."""
        self.also: dict[str, set[str]] = {}
        """Wave -> alerts that it did not name."""

    def start(self) -> None:
        self.prometheus.start()
        self.here.start()
        self.beside.start()
        for operator in (self.here, self.beside):
            operator.create_job("calm")
        until("all is well", self.is_well, 240, context=self.told, look_seconds=LOOK_SECONDS)
        for operator in (self.here, self.beside):
            until("the job runs", lambda one=operator: one.runs("calm"), context=self.told)  # type: ignore[misc]
            assert operator.report("calm", operator.token("calm"), 10) == 200
            assert operator.report("calm", "of-nobody", 20) == 403
        self.strays.clear()
        self.began = time.time()

    def stop(self) -> None:
        self.here.stop()
        self.beside.stop()
        self.prometheus.stop()

    def firing(self) -> set[str]:
        """Of the operator that has the faults."""
        for operator in (self.here, self.beside):
            operator.supervise()
        firing = self.prometheus.firing()
        self.strays |= {one for one in firing if one.namespace != HERE}
        return {one.alert for one in firing if one.namespace == HERE}

    def is_well(self) -> bool:
        """Everything is scraped and works, and no alert fires or is about to."""
        self.firing()
        if self.prometheus.query("ALERTS"):
            return False
        return all(len(self.prometheus.query(expression)) == count for expression, count in self.wanted().items())

    def wanted(self) -> dict[str, int]:
        """Expression -> how many series it has when all is well."""
        operators = (self.here, self.beside)
        return {
            "up == 1": sum(len(operator.commands) for operator in operators),
            "tj_watcher_leading == 1": len(operators),
            "tj_watcher_synced == 1": len(operators),
            "tj_watcher_redis_up == 1": len(operators),
            "tj_worker_consuming == 1": sum(len(operator.workers) for operator in operators),
            "tj_beat_last_tick_timestamp_seconds > time() - 30": len(operators),
        }

    def told(self) -> str:
        alerts = [(labels["alertname"], labels["alertstate"]) for labels, _ in self.prometheus.query("ALERTS")]
        down = [labels["pod"] for labels, value in self.prometheus.query("up") if not value]
        return f"alerts: {alerts}; not scraped: {down}; logs: {self.here.folder}"

    def most(self, expression: str) -> float:
        return max(
            value for _, values in self.prometheus.history(expression, self.began, time.time()) for value in values
        )

    def play(self, wave: dict[str, Fault]) -> list[Play]:
        until("all is well", self.is_well, CLEARS_WITHIN_SECONDS, context=self.told, look_seconds=LOOK_SECONDS)
        plays = [Play(sentence, fault) for sentence, fault in wave.items()]
        for play in plays:
            if play.fault.cannot:
                print(*play.rows(), sep="\n")
            else:
                play.fault.begins(self.here)
                play.began = time.monotonic()
        deadline = time.monotonic() + FIRES_WITHIN_SECONDS + CLEARS_WITHIN_SECONDS
        while not all(play.is_over for play in plays) and time.monotonic() < deadline:
            firing = self.firing()
            for play in plays:
                if not play.is_over:
                    play.look(self.here, firing)
                    if play.is_over:
                        print(*play.rows(), sep="\n", flush=True)
            others = firing - {alert for play in plays for alert in play.fault.fires}
            self.also.setdefault(" + ".join(wave), set()).update(others)
            time.sleep(LOOK_SECONDS)  # between two looks at what Prometheus evaluates twice a second
        for play in plays:
            if not play.is_over:
                print(*play.rows(), sep="\n", flush=True)
                if not play.ended:
                    play.fault.ends(self.here)
        return plays


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("alerts"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_every_alert_fires_and_clears_and_none_is_told_of_the_operator_beside(stage: Stage) -> None:
    chosen = os.environ.get("TJ_ALERTS_ONLY", "")  # a pattern, for whoever works on one of them
    plays: list[Play] = []
    print(f"\n{'alert':<22}{'fault':<60}{'fires':>8}{'clears':>8}   (seconds)")
    for wave in WAVES:
        picked = {sentence: fault for sentence, fault in wave.items() if re.search(chosen, f"{sentence} {fault.fires}")}
        if picked:
            plays += stage.play(picked)
    print(json.dumps({wave: sorted(also) for wave, also in stage.also.items() if also}, indent=1))
    assert [play.sentence for play in plays if not play.is_over] == []
    assert stage.strays == set()


def test_each_panel_shows_data_of_the_operator_that_is_chosen_and_each_scaler_asks_for_its_own(stage: Stage) -> None:
    """After the faults, over all their time."""
    now = time.time()
    asked = {where: text.replace("$__rate_interval", "10s") for where, text in expressions().items()}
    for namespace in (HERE, BESIDE):
        empty = []
        for where, text in asked.items():
            if where.startswith("panel "):
                found = stage.prometheus.history(text.replace("$namespace", namespace), stage.began, now)
                if not any(math.isfinite(value) for _, values in found for value in values):
                    empty.append(where)
        assert not empty, f"{namespace} has no data in: {'; '.join(empty)}"
        reports = asked["panel Reports of progress an hour, reports {{result}}"].replace("$namespace", namespace)
        told = {
            labels["result"] for labels, values in stage.prometheus.history(reports, stage.began, now) if max(values)
        }
        assert told == {"Accepted", "Forbidden"}, namespace
    panel = asked["panel Watchers that lead, in all"]
    most = {one: stage.most(panel.replace("$namespace", one)) for one in (HERE, BESIDE)}
    assert most[BESIDE] == 1, "of one operator alone"
    assert most[HERE] >= 2
    scaled = asked["ScaledObject"]
    assert HERE in scaled
    assert stage.most(scaled.replace(HERE, BESIDE)) < 15, "the threshold: nothing waits there"
