"""Every probe of k8s/ and docker-compose.yml is put to the process that it is for, and means what its kind means:
a readiness probe (and a health check) fails while the process cannot serve; a liveness probe fails only where a restart
would cure it. So none asks what another process must answer first.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.support.valkey import free_port
from tests.conftest import RealRedis
from tests.integration.manifests import K8S, Json, render, templates
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.telemetry.health import HealthServer
from watcher.health import Pulse, WatcherReport

pytestmark = pytest.mark.xdist_group("probes")  # they share what its fixture starts or renders

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
INSTALLATIONS = {"the whole cluster": K8S, "some namespaces": K8S / "namespaced"}
NAMES = ("watcher", "worker", "beat", "flower", "reporter", "redis")


@pytest.fixture(scope="module", params=INSTALLATIONS)
def containers(request: pytest.FixtureRequest) -> dict[str, Json]:
    return {t.component: t.container for t in templates(render(INSTALLATIONS[request.param]))}


def composed(name: str) -> list[str]:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    test: list[str] = services[name]["healthcheck"]["test"]
    return test


def url_of(container: Json, kind: str, port: int) -> str:
    """Of a probe by HTTP, on another port of this machine. Its port has a name: the one that the container gives it."""
    probe = container[kind]["httpGet"]
    named = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert probe["port"] in named, f"{kind} asks a port without a name: {probe['port']}"
    return f"http://127.0.0.1:{port}{probe['path']}"


def code_of(url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> int:
    try:
        asked = urllib.request.Request(url, data, headers or {})  # noqa: S310  of this machine
        with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


# -- the watcher -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Moment:
    report: WatcherReport
    want_ready: bool
    want_alive: bool


WATCHING = WatcherReport(True, True, reflectors={"pods": Pulse("watching", True, 1.0)})
LISTING = WatcherReport(True, False, reflectors={"pods": Pulse("listing", False, 1.0)})
MOMENTS = {
    "it leads and has everything": Moment(WATCHING, True, True),
    "it stands by": Moment(WatcherReport(False, False), True, True),
    "it lists a large cluster: not ready, and a restart would begin the list again": Moment(LISTING, False, True),
    "Redis is away: nothing is written, and a restart would cure nothing": Moment(
        replace(WATCHING, store_away=True), False, True
    ),
    "the API server is away: nor here": Moment(
        replace(WATCHING, reflectors={"pods": Pulse("waiting", True, 900.0)}), False, True
    ),
    "its watch has fallen silent: a restart cures that": Moment(
        replace(WATCHING, reflectors={"pods": Pulse("watching", True, 91.0)}), False, False
    ),
    "its writer hangs: a restart cures that": Moment(replace(WATCHING, writer_age_seconds=900.0), True, False),
}


@pytest.fixture
def watcher() -> Iterator[tuple[int, Callable[[WatcherReport], None]]]:
    """The watcher's own server, and how to tell it what to report."""
    now = [WATCHING]
    server = HealthServer(0, lambda: now[0], host="127.0.0.1")
    server.start()
    yield server.port, lambda report: now.__setitem__(0, report)
    server.stop()


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
def test_the_watchers_probes(
    moment: Moment, containers: dict[str, Json], watcher: tuple[int, Callable[[WatcherReport], None]]
) -> None:
    port, tell = watcher
    tell(moment.report)
    container = containers["watcher"]
    assert (code_of(url_of(container, "readinessProbe", port)) == 200) is moment.want_ready
    assert (code_of(url_of(container, "livenessProbe", port)) == 200) is moment.want_alive


def test_the_watcher_serves_at_the_port_that_its_probes_ask(containers: dict[str, Json]) -> None:
    container = containers["watcher"]
    (port,) = [e["value"] for e in container["env"] if e["name"] == "TJ_HEALTH_PORT"]
    assert [p["containerPort"] for p in container["ports"] if p["name"] == "health"] == [int(port)]
    for kind in ("readinessProbe", "livenessProbe"):
        assert container[kind]["httpGet"]["port"] == "health"


def test_the_composed_watchers_health_check_asks_whether_it_is_ready_at_its_port(
    watcher: tuple[int, Callable[[WatcherReport], None]],
) -> None:
    port, tell = watcher
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    told = services["watcher"]["environment"]["TJ_HEALTH_PORT"]
    what, python, *rest = composed("watcher")
    assert (what, python) == ("CMD", "python")
    assert f"127.0.0.1:{told}'" in rest[-1]
    command = [sys.executable, *(part.replace(f":{told}'", f":{port}'") for part in rest)]
    for report, want in ((WATCHING, True), (LISTING, False)):
        tell(report)
        done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_SECONDS)
        assert (done.returncode == 0) is want


# -- Flower ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def flower() -> Json:
    found = [
        t.container for folder in INSTALLATIONS.values() for t in templates(render(folder)) if t.name == "tj-flower"
    ]
    assert found[0] == {**found[1], "envFrom": found[0]["envFrom"]}, "one Flower is enough to try both"
    return found[0]


def values(container: Json) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container["env"] if "value" in e}


WRITES = {
    "stop every worker": "/api/worker/shutdown/celery@vm",
    "take the queue from a worker": "/api/worker/queue/cancel-consumer/celery@vm?queue=tj",
    "let a task run once an hour": "/api/task/rate-limit/reconcile?workername=celery@vm&ratelimit=1/h",
    "send a task": "/api/task/async-apply/tj.reconcile",
    "revoke one": "/api/task/revoke/an-id?terminate=true",
}
PAGES = ("/", "/workers", "/tasks", "/broker", "/api/tasks", "/api/task/types")


def test_flower_shows_and_changes_nothing_and_its_probes_need_no_password(real_redis: RealRedis, flower: Json) -> None:
    port = free_port()
    command = [part.replace("5555", str(port)).replace("0.0.0.0", "127.0.0.1") for part in flower["command"][1:]]
    told = {**values(flower), "FLOWER_BASIC_AUTH": "a:b", "TJ_PAGE_URL": "https://jobs.example.com/?a=1&b=2"}
    env = {**os.environ, **told, "TJ_REDIS_URL": real_redis.url, "TJ_KEY_PREFIX": real_redis.prefix}
    process = subprocess.Popen([sys.executable, "-m", "celery", *command], env=env, cwd=ROOT, stderr=subprocess.DEVNULL)
    here = f"http://127.0.0.1:{port}"
    try:
        until("Flower answers", lambda: process.poll() is not None or _answers(f"{here}/healthcheck"))
        for kind in ("readinessProbe", "livenessProbe"):
            assert code_of(url_of(flower, kind, port)) == 200, kind
        assert code_of(f"{here}/") == 401, "all else is behind it"
        known = {"Authorization": f"Basic {base64.b64encode(b'a:b').decode()}"}
        assert {page: code_of(f"{here}{page}", known) for page in PAGES} == dict.fromkeys(PAGES, 200)
        with urllib.request.urlopen(urllib.request.Request(f"{here}/workers", headers=known)) as answer:  # noqa: S310
            assert 'href="https://jobs.example.com/?a=1&amp;b=2"' in answer.read().decode(), "it links to the page"
        said = {what: code_of(f"{here}{path}", known, b"{}") for what, path in WRITES.items()}
        assert said == dict.fromkeys(WRITES, 403)
    finally:
        process.kill()
        process.wait()


def test_every_flower_that_is_shipped_only_shows(containers: dict[str, Json]) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert values(containers["flower"])["FLOWER_READ_ONLY"] == "true"
    assert services["flower"]["environment"]["FLOWER_READ_ONLY"] == "true"


def _answers(url: str) -> bool:
    try:
        return code_of(url) > 0
    except OSError:
        return False


# -- Redis ------------------------------------------------------------------------------------------
ANSWERS = {
    # to PING -> passes each probe
    "PONG": True,
    "MISCONF Errors writing to the AOF file: No space left on device": True,  # a restart makes no room
    "LOADING Valkey is loading the dataset in memory": False,
    "BUSY Valkey is busy running a script.": False,
    "Could not connect to Valkey at 127.0.0.1:6379: Connection refused": False,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_which_answers_of_redis_pass_its_probes(answer: str, containers: dict[str, Json], tmp_path: Path) -> None:
    cli = tmp_path / "valkey-cli"
    cli.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
    cli.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        command: list[str] = containers["redis"][kind]["exec"]["command"]
        done = subprocess.run(command, env=path, check=False, capture_output=True)
        assert (done.returncode == 0) == ANSWERS[answer], kind


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_killed_while_it_starts_on_a_busy_node(name: str, containers: dict[str, Json]) -> None:
    startup, liveness = containers[name]["startupProbe"], containers[name]["livenessProbe"]
    asked = {"httpGet", "exec"}
    assert {k: v for k, v in startup.items() if k in asked} == {k: v for k, v in liveness.items() if k in asked}
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
    assert "initialDelaySeconds" not in liveness, "it begins when the startup probe is over"
