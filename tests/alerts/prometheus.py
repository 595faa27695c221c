"""A real Prometheus with the shipped rules, in which time passes `FASTER` times as fast: what takes a minute in the
rules takes a second. Scaled are `for`, the windows of ranges, how often it scrapes and evaluates, and for how long a
series counts after its last sample. The expressions are otherwise those of k8s/monitoring: what they compare with, such
as the 90 s of a watch, stays.

`python -m tests.alerts.prometheus` unpacks Debian's Prometheus and libfaketime into .venv/prometheus, where the PATH
has none; it installs nothing, needs no root, and may run twice.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from benchmarks.support.valkey import free_port
from controlplane.process import Process
from tests.integration.manifests import kubectl
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.promql import MONITORING
from tests.support.waiting import until

FASTER = 60
SCRAPE_SECONDS = 1.0
"""15 s in k8s/monitoring would be 0.25 s here; a rate of 5 m (5 s) has five samples all the same."""
UNPACKED = ROOT / ".venv" / "prometheus"
PACKAGES = ("prometheus", "libfaketime")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def find(program: str) -> Path | None:
    """On the PATH, or unpacked."""
    found = shutil.which(program) or shutil.which(program, path=str(UNPACKED / "usr" / "bin"))
    return Path(found) if found else None


def find_library() -> Path | None:
    """libfaketime, which gives one process another clock."""
    places = [folder.glob("usr/lib/*/faketime/libfaketimeMT.so.1") for folder in (UNPACKED, Path("/"))]
    return next((path for place in places for path in place), None)


def unpack() -> int:
    if find("prometheus") and find_library():
        return 0
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        print("alerts: no Prometheus on the PATH and no apt-get to fetch Debian's with", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = ["apt-get", "download", "-q", *PACKAGES]
        got = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if got.returncode:
            print(f"alerts: run `apt-get update` and try again; apt-get said: {got.stderr[-500:]}", file=sys.stderr)
            return 0
        for file in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(file), str(UNPACKED)], check=True)
    return 0


# -- the rules -------------------------------------------------------------------------------------
def scaled(duration: str) -> str:
    """`10m` -> `10000ms`."""
    number, unit = re.fullmatch(r"(\d+)([smhd])", duration).groups()  # type: ignore[union-attr]
    return f"{int(number) * _UNITS[unit] * 1000 // FASTER}ms"


def scaled_expression(expression: str) -> str:
    return re.sub(r"\[(\w+)\]", lambda found: f"[{scaled(found[1])}]", expression)


def shipped_rules(namespace: str) -> list[dict[str, Any]]:
    """The groups as docs/monitoring.md has them installed for an operator in that namespace."""
    text = kubectl("kustomize", str(MONITORING)).stdout
    text = "\n".join(line.replace("tj-system", namespace, 1) for line in text.splitlines())
    (made,) = [document for document in yaml.safe_load_all(text) if document["kind"] == "PrometheusRule"]
    groups: list[dict[str, Any]] = made["spec"]["groups"]
    return groups


def in_fast_motion(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def rule(shipped: Mapping[str, Any]) -> dict[str, Any]:
        return {**shipped, "expr": scaled_expression(shipped["expr"]), "for": scaled(shipped["for"])}

    return [{**group, "rules": [rule(one) for one in group["rules"]]} for group in groups]


# -- the server ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Firing:
    namespace: str
    alert: str


class Prometheus:
    """Until `stop`. Scrapes the targets of every file `*.targets.json` in the folder."""

    def __init__(self, folder: Path, namespaces: list[str]) -> None:
        program = find("prometheus")
        assert program is not None
        names = []
        for namespace in namespaces:
            names.append(f"{namespace}.rules.yml")
            text = yaml.safe_dump({"groups": in_fast_motion(shipped_rules(namespace))})
            (folder / names[-1]).write_text(text, encoding="utf-8")
        every = f"{int(SCRAPE_SECONDS * 1000)}ms"
        config = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": "500ms"},
            "rule_files": names,
            "scrape_configs": [
                {"job_name": "tj", "file_sd_configs": [{"files": ["*.targets.json"], "refresh_interval": "1s"}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._url = f"http://127.0.0.1:{(port := free_port())}/api/v1"
        command = (
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--query.lookback-delta={scaled('5m')}",
            "--log.level=warn",
        )
        self._process = Process("prometheus", command, folder / "prometheus.log")

    def start(self) -> None:
        self._process.start()
        until("Prometheus answers", self._answers, context=self._process.last_words, look_seconds=0.1)

    def stop(self) -> None:
        self._process.stop(5)

    def _answers(self) -> bool:
        assert not self._process.ended(), self._process.last_words()
        try:
            self.query("vector(1)")
        except (urllib3.exceptions.HTTPError, AssertionError):  # 503 while it starts
            return False
        return True

    def _ask(self, what: str, **query: str) -> Any:
        answer = urllib3.request("GET", f"{self._url}/{what}", fields=query, timeout=30, retries=False)
        assert answer.status == 200, answer.data
        return answer.json()["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        found = self._ask("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found if isinstance(one, dict)]

    def history(self, expression: str, since: float, until_: float) -> list[tuple[dict[str, str], list[float]]]:
        """Every value of each series, second by second."""
        found = self._ask("query_range", query=expression, start=str(since), end=str(until_), step="1")["result"]
        return [(one["metric"], [float(value) for _, value in one["values"]]) for one in found]

    def firing(self) -> set[Firing]:
        """Raises AssertionError when the rules of both operators tell of the same."""
        alerts = [one["labels"] for one in self._ask("alerts")["alerts"] if one["state"] == "firing"]
        assert len({frozenset(labels.items()) for labels in alerts}) == len(alerts), alerts
        return {Firing(labels.get("namespace", ""), labels["alertname"]) for labels in alerts}


if __name__ == "__main__":
    sys.exit(unpack())
