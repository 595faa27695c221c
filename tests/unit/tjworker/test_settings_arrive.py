"""Each setting arrives where it takes effect: two sets of processes are made, one with another value of it, and what
differs in their objects is where it has arrived.

The parts have tests of their own, which give them values. That a process hands its setting over is seen here alone.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest

from tjworker.app import make_app
from tjworker.clock import ClusterClock
from tjworker.controllers.autoscaler import autoscale_rules
from tjworker.page.__main__ import site_of
from tjworker.settings import Settings
from tjworker.worker.runtime import connect
from watcher.__main__ import _make_historian, _make_watcher
from watcher.term import Term

OTHER: Mapping[str, Any] = {
    "autoscale_policy": "off",
    "gang_scheduler": "volcano",
    "git_sync_image": "own:1",
    "host_ports": "30000-30009",
    "max_load_desired": 0.5,
    "kinds": "pytorchjobs.kubeflow.org",
    "record_keys": "o" * 32,
    "history_url": "sqlite:////other.db",
    "redis_url": "redis://other:6379/1",
    "reports_url": "https://other:1",
    "page_access": "token",
    "page_basic_auth": "me:another word",
    "page_host": "localhost",
}
"""Where another text would not be taken; a number is raised, a flag turned, a text gets a letter more."""
RECONCILE, AUTOSCALE = "worker: reconcile.Rules", "worker: autoscale.AutoscaleRules"
STORES = {"worker: store.RedisCommands", "watcher: store.RedisCommands", "page: store.RedisCommands"}
SEALS = {"worker: store.Seal", "watcher: store.Seal"}
QUEUES = {"worker: store.RedisWorkQueue", "watcher: store.RedisWorkQueue"}
REFLECTOR, TERM, REPAIRS = "watcher: kube.RequestSettings", "watcher: term.Term", "watcher: repairs.Repairs"
SCOPE = "watcher: scope.Scope"
ELECTION, ELECTOR = "watcher: leader.Election", "watcher: leader.Elector"
WORKERS_API, WATCHERS_API = "worker: kube.KubeClient", "watcher: kube.KubeClient"
POOL = "worker: kube.ConnectionPool"
BOUNDS = {"watcher: history.Bounds", "page: history.Bounds"}
ARRIVES: Mapping[str, Set[str]] = {
    "redis_url": {*STORES, "worker: publisher.Publisher", "app"},
    "key_prefix": {*STORES, *SEALS, "worker: publisher.Publisher", ELECTION, "app"},
    "record_keys": SEALS,
    "own_namespace": {ELECTION, RECONCILE},
    "namespaces": {REFLECTOR, SCOPE},
    "namespaces_excluded": {REFLECTOR, SCOPE},
    "kinds": {REFLECTOR},
    "resync_seconds": {REPAIRS, "beat"},
    "full_resync_seconds": {REPAIRS},
    "collect_orphans_seconds": {"beat"},
    "collect_earlier_orphans": set(),
    "lock_ttl_seconds": {REPAIRS},
    "retry_base_seconds": QUEUES,
    "retry_max_seconds": QUEUES,
    "writes_per_pass": {RECONCILE},
    "write_concurrency": {"worker: execution.Executor", "worker: execution.Threads", POOL},
    "keys_per_task": {"worker: controllers.ConcurrentPasses", POOL},
    "autoscale_seconds": {"beat"},
    "autoscale_policy": {AUTOSCALE, "beat"},
    "autoscale_cooldown_seconds": {AUTOSCALE},
    "gang_scheduler": {RECONCILE, REFLECTOR},
    "gang_scheduler_name": {RECONCILE},
    "max_load_desired": {AUTOSCALE},
    "request_timeout_seconds": {WORKERS_API, WATCHERS_API, TERM},
    "watch_timeout_seconds": {WATCHERS_API, REFLECTOR, TERM},
    "list_page_size": {REFLECTOR},
    "leader_elect": {ELECTION, ELECTOR},
    "leader_namespace": {ELECTION},
    "lease_duration_seconds": {ELECTION},
    "lease_renew_seconds": {ELECTOR, WATCHERS_API},
    "task_soft_time_limit_seconds": {"app"},
    "node_failure_grace_seconds": {RECONCILE},
    "creating_duration_seconds": {RECONCILE},
    "creating_restart_seconds": {RECONCILE},
    "enable_creating_failed": {RECONCILE},
    "gpu_resources": {RECONCILE, AUTOSCALE, "page: page.Site"},
    "gpu_fault_conditions": {RECONCILE},
    "restart_limit": {RECONCILE},
    "autoclean": {RECONCILE},
    "git_sync_image": {RECONCILE},
    "host_ports": {RECONCILE},
    "log_tails": {"worker: execution.Executor"},
    "history_jobs": BOUNDS,
    "history_seconds": {*BOUNDS, "watcher: historian.Historian", "page: page.Site"},
    "history_url": {"watcher: history.SqlHistory", "page: history.SqlHistory"},
    # Only with an authority that can be read (tests/scenarios/test_reports.py); the report server opens the others.
    **dict.fromkeys(
        ("reports_url", "reports_ca_file", "reports_host", "reports_port", "reports_tls_folder"), frozenset()
    ),
    "page_host": set(),
    "page_port": set(),
    "page_access": {"page: page.Viewers"},
    "page_basic_auth": {"page: page.Viewers"},
    "page_flower_url": {"page: page.Site"},
    "page_url": set(),
    # Processes open these ports and set up their log before they make anything.
    **dict.fromkeys(("health_host", "health_port", "metrics_host", "metrics_port"), frozenset()),
    "metrics_jobs": {"watcher: gauges.Gauges"},
    **dict.fromkeys(("log_format", "log_level"), frozenset()),
}
"""Objects, with the process and the room they are in, that differ once they are made. A setting without any is read
from the Settings where it is needed."""
SETTINGS = Settings(record_keys="k" * 32, page_access="kubeconfig")
"""With a page that takes a password."""


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t}}]\n"
        "current-context: a\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(file))


def another(name: str) -> Settings:
    plain = getattr(SETTINGS, name)
    value = OTHER.get(name, not plain if isinstance(plain, bool) else plain + ("a" if isinstance(plain, str) else 1))
    return SETTINGS.model_copy(update={name: value})


def processes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str]]]:
    """Of each object of a worker, of a watcher with a term, of Celery's app, of beat and of the page: its values."""
    clock = ClusterClock()
    watcher = _make_watcher(settings, _make_historian(settings, clock), clock)
    term = Term(watcher._api, watcher._store, print, token=1, now=lambda: 0.0, settings=settings)
    monkeypatch.setattr("tjworker.settings.load_settings", lambda: settings)
    beat = importlib.reload(importlib.import_module("beat_schedule"))
    made = {
        "worker": (connect(settings), autoscale_rules(settings)),
        "watcher": (watcher, term),
        "app": {name: v for name, v in make_app(settings).conf.items() if isinstance(v, str | int | float)},
        "beat": beat.beat_schedule,
        "page": site_of(settings),
    }
    found: dict[str, list[tuple[str, str]]] = {}
    for process, one in made.items():
        seen: set[int] = set()
        for where, value in walk((process, ""), one, seen):
            found.setdefault(where[0], []).append((where[1], value))
    return found


def walk(where: tuple[str, str], value: Any, seen: set[int]) -> Iterator[tuple[tuple[str, str], str]]:
    if isinstance(value, str | int | float | bytes | None):
        yield where, repr(value)
        return
    if id(value) in seen or isinstance(value, Settings | type):
        return
    if not isinstance(value, tuple):  # one may be in several objects
        seen.add(id(value))
    kind, process = type(value), where[0].partition(":")[0]
    room = kind.__module__.split(".")
    inner: Iterable[tuple[tuple[str, str], Any]] = ()
    if isinstance(value, functools.partial):
        inner = ((where, one) for one in value.keywords.values())
    elif isinstance(value, Mapping):
        inner = (((where[0], f"{where[1]}/{name}"), one) for name, one in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        inner = ((where, one) for one in value)
    elif callable(value) and getattr(value, "__closure__", None):
        inner = ((where, cell.cell_contents) for cell in value.__closure__)
    elif room[0] in ("tjworker", "watcher"):
        names = (*getattr(value, "__dict__", ()), *(n for base in kind.__mro__ for n in getattr(base, "__slots__", ())))
        inner = (((f"{process}: {room[1]}.{kind.__name__}", name), getattr(value, name, None)) for name in names)
    for place, one in inner:
        yield from walk(place, one, seen)


def test_every_setting_is_in_the_table() -> None:
    assert list(ARRIVES) == list(Settings.model_fields)


def test_each_setting_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = processes(SETTINGS, monkeypatch)
    again = processes(SETTINGS, monkeypatch)
    noise = {(where, attribute) for where in plain for attribute, value in {*plain[where]} ^ {*again[where]}}

    def differs(made: dict[str, list[tuple[str, str]]], where: str) -> bool:
        before, now = ([one for one in of.get(where, ()) if (where, one[0]) not in noise] for of in (plain, made))
        return before != now

    missing = {}
    for name, wanted in ARRIVES.items():
        made = processes(another(name), monkeypatch)
        found = {where for where in {*plain, *made} if differs(made, where)}
        if not wanted <= found or (found and not wanted):
            missing[name] = {"wanted": sorted(wanted), "found": sorted(found)}
    assert missing == {}
