"""What each setting is when nobody says anything, what it may be, and what is made of it.

The table is not made from `tjworker/settings.py`: a default that changes without a reason, or a bound that lets a
value through that no process can work with, is seen here, and changed here with its reason in CHANGELOG.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tjworker import settings
from tjworker.settings import Settings, turn_seconds

KEY, OTHER = "k" * 32, "o" * 40


@dataclass(frozen=True)
class Row:
    default: Any
    takes: tuple[str, ...]
    refuses: tuple[str, ...] = ()


ABOVE_ZERO = ("0", "-1", "soon", "")
NOT_BELOW_ZERO = ("-0.001", "-1", "soon", "")
WHOLE_FROM_ONE = ("0", "-1", "1.5", "many", "")
WORDS = ("yes please", "2", "")
PORT = Row(0, ("0", "1", "65535"), ("-1", "65536", "http"))
TABLE: dict[str, Row] = {
    "redis_url": Row(
        "redis://127.0.0.1:6379/0",
        ("redis://h", "rediss://u:p@h:6379/0?ssl_ca_certs=/x", "redis://h:0/1"),
        (
            "",
            "h:6379",
            "http://h",
            "redis//h",
            "redis://h:port/0",
            "redis://h h",
            "redis://h?password=x",
            "sentinel://h",
            "redis+sentinel://h",
        ),
    ),
    "key_prefix": Row(
        "tj", ("a", "0", "tj-2", "a" * 32), ("", "-a", "A", "a:b", "a_b", "a.b", "a" * 33, "a\n", "tj tj")
    ),
    "record_keys": Row(
        "", (KEY, f"{KEY},{OTHER}"), ("k" * 31, f"{KEY},", f",{KEY}", f"{KEY}, {OTHER}", f"{KEY},short")
    ),
    "own_namespace": Row("", ("tj-system",)),
    "namespaces": Row("", ("a", "a,b", "a-1", "a" * 63), ("A", "a_b", "a.b", "-a", "a-", "a b", "a,B", "a" * 64)),
    "namespaces_excluded": Row(
        "", ("a", "a,b", "a-1", "a" * 63), ("A", "a_b", "a.b", "-a", "a-", "a b", "a,B", "a" * 64)
    ),
    "kinds": Row("", ("pytorchjobs.kubeflow.org", "PyTorchJob, jaxjobs", "all")),
    "resync_seconds": Row(30, ("0.1", "3600"), ABOVE_ZERO),
    "full_resync_seconds": Row(600, ("0.1", "86400"), ABOVE_ZERO),
    "collect_orphans_seconds": Row(600, ("0.1", "86400"), ABOVE_ZERO),
    "collect_earlier_orphans": Row(False, ("true", "1", "false"), WORDS),
    "lock_ttl_seconds": Row(30, ("0.1", "600"), ABOVE_ZERO),
    "retry_base_seconds": Row(1, ("0.01", "60"), ABOVE_ZERO),
    "retry_max_seconds": Row(300, ("0.01", "3600"), ABOVE_ZERO),
    "writes_per_pass": Row(500, ("1", "100000"), WHOLE_FROM_ONE),
    "write_concurrency": Row(3, ("1", "64"), ("65", *WHOLE_FROM_ONE)),
    "keys_per_task": Row(8, ("1", "16"), ("17", *WHOLE_FROM_ONE)),
    "autoscale_seconds": Row(5, ("0.1", "600"), ABOVE_ZERO),
    "autoscale_policy": Row(
        "fulfillment", ("fulfillment", "fair", "throughput", "goodput", "off"), ("", "on", "OFF", "fulfillment,off")
    ),
    "autoscale_cooldown_seconds": Row(30, ("0", "600"), NOT_BELOW_ZERO),
    "gang_scheduler": Row(
        "none", ("none", "kubernetes", "volcano", "scheduler-plugins"), ("", "Volcano", "kueue", "none ")
    ),
    "gang_scheduler_name": Row("", ("", "volcano", "my.scheduler-2", "a" * 253), ("-a", "a-", "A", "a b", "a" * 254)),
    "max_load_desired": Row(0.97, ("0", "1", "0.5"), ("-0.01", "1.01", "97", "")),
    "request_timeout_seconds": Row(15, ("0.1", "60"), ABOVE_ZERO),
    "watch_timeout_seconds": Row(60, ("0.1", "80"), ("80.1", *ABOVE_ZERO)),
    "list_page_size": Row(500, ("1", "5000"), WHOLE_FROM_ONE),
    "leader_elect": Row(True, ("false", "0", "true"), WORDS),
    "leader_namespace": Row("", ("tj-system",)),
    "lease_duration_seconds": Row(15, ("0.1", "60"), ABOVE_ZERO),
    "lease_renew_seconds": Row(5, ("0.1", "60"), ABOVE_ZERO),
    "task_soft_time_limit_seconds": Row(30, ("0.1", "600"), ABOVE_ZERO),
    "node_failure_grace_seconds": Row(30, ("0", "600"), NOT_BELOW_ZERO),
    "creating_duration_seconds": Row(900, ("0.1", "3600"), ABOVE_ZERO),
    "creating_restart_seconds": Row(3600, ("0.1", "86400"), ABOVE_ZERO),
    "enable_creating_failed": Row(False, ("true", "false"), WORDS),
    "gpu_resources": Row("nvidia.com/gpu,amd.com/gpu", ("", "a.com/gpu")),
    "gpu_fault_conditions": Row("GPUFault,GPUUnhealthy,NvidiaGPUFault", ("", "Own")),
    "restart_limit": Row(5, ("0", "100"), ("-1", "1.5", "")),
    "autoclean": Row(True, ("false", "true"), WORDS),
    "git_sync_image": Row("alpine/git:2.47.2", ("r.example/git@sha256:00",), ("", "a b")),
    "host_ports": Row(
        "20000-29999",
        ("", "1024-65535", "30000-30000", "1024-1024"),
        ("1023-2000", "30000-65536", "30000-20000", "20000", "20000-", "-20000", "1-2", "20000-29999,30000-30001"),
    ),
    "log_tails": Row(True, ("false", "true"), WORDS),
    "history_jobs": Row(10_000, ("0", "1000000"), ("-1", "1.5", "")),
    "history_seconds": Row(604_800.0, ("1", "2592000"), ("0", "-1", "")),
    "history_url": Row(
        "",
        ("postgresql://u:p@db.example.com:5432/jobs?sslmode=verify-full", "sqlite:////var/lib/tj/history.db"),
        ("mysql://a/b", "sqlite://", "sqlite:///here.db", "postgresql+asyncpg://a/b", "postgresql://", "redis://a"),
    ),
    "reports_url": Row(
        "", ("https://tj-reports.tj-system.svc:8082",), ("http://a:1", "https://a/b", "a:1", "https://")
    ),
    "reports_ca_file": Row("/etc/reports-ca/ca.crt", ("/a",), ("",)),
    "reports_host": Row("0.0.0.0", ("127.0.0.1", "::"), ("",)),
    "reports_port": Row(8082, ("1", "65535"), ("0", "65536", "-1", "1.5", "")),
    "reports_tls_folder": Row("/etc/reports-tls", ("/a",), ("",)),
    "page_host": Row("127.0.0.1", ("0.0.0.0", "::1"), ("",)),
    "page_port": Row(8088, ("1", "65535"), ("0", "65536", "-1", "1.5", "")),
    "page_access": Row("token", ("kubeconfig",), ("", "none", "Token")),
    "page_basic_auth": Row("", ("me:12345678",), ("me", "me:1234567", ":12345678", "me:1234 5678")),
    "page_flower_url": Row("", ("http://127.0.0.1:5555", "https://flower.example.com"), ("flower", "ftp://a")),
    "page_url": Row("", ("http://127.0.0.1:8088", "https://jobs.example.com"), ("jobs", "https://{{a}}")),
    "health_host": Row("0.0.0.0", ("127.0.0.1", "::"), ("",)),
    "health_port": PORT,
    "metrics_host": Row("0.0.0.0", ("127.0.0.1", "::"), ("",)),
    "metrics_port": PORT,
    "metrics_jobs": Row(0, ("0", "10000"), ("-1", "10001", "1.5", "")),
    "log_format": Row("console", ("console", "json"), ("", "JSON", "text")),
    "log_level": Row("INFO", ("DEBUG", "INFO", "WARNING", "ERROR"), ("", "info", "CRITICAL", "WARN")),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the environment, and in no pod."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TJ_{name.upper()}", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(settings, "_POD_NAMESPACE", tmp_path / "none")


def test_every_setting_is_in_the_table_and_no_other() -> None:
    assert list(TABLE) == list(Settings.model_fields)


@pytest.mark.parametrize("name", TABLE)
def test_its_default(name: str) -> None:
    found = getattr(Settings(), name)
    assert found == TABLE[name].default
    assert isinstance(found, bool) is isinstance(TABLE[name].default, bool)


@pytest.mark.parametrize("name", TABLE)
def test_what_it_may_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is written in the environment, at its bounds and beyond them."""
    for text in TABLE[name].takes:
        monkeypatch.setenv(f"TJ_{name.upper()}", text)
        found = getattr(Settings(), name)
        wanted: object = text
        if isinstance(found, bool):
            wanted = text in ("true", "1")
        elif not isinstance(found, str):
            wanted = float(text)
        assert found == wanted, text
    for text in TABLE[name].refuses:
        monkeypatch.setenv(f"TJ_{name.upper()}", text)
        with pytest.raises(ValidationError):
            raise AssertionError(f"{text!r} is taken: {getattr(Settings(), name)!r}")


def test_they_are_read_once_and_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Settings()
    with pytest.raises(ValidationError):
        told.restart_limit = 7  # type: ignore[misc]
    monkeypatch.setenv("RESTART_LIMIT", "7")
    monkeypatch.setenv("TJ_FOO", "7")
    assert Settings().restart_limit == 5


def test_what_is_secret_is_shown_nowhere() -> None:
    assert set(settings.SECRET) == {"redis_url", "record_keys", "history_url", "page_basic_auth"}
    url = f"postgresql://tj:{KEY}@db/tj"
    assert KEY not in repr(Settings(record_keys=KEY, page_basic_auth=f"me:{KEY}", history_url=url))


# -- what holds between them -----------------------------------------------------------------------
def test_the_defaults_go_together() -> None:
    told = Settings()
    assert told.lease_renew_seconds * 2 < told.lease_duration_seconds, "one renewal may fail"
    assert told.resync_seconds < told.full_resync_seconds
    assert told.retry_base_seconds < told.retry_max_seconds
    assert told.autoscale_seconds < told.autoscale_cooldown_seconds
    assert told.creating_duration_seconds < told.creating_restart_seconds
    assert told.request_timeout_seconds < min(told.lock_ttl_seconds, told.task_soft_time_limit_seconds)
    assert told.lock_ttl_seconds / 3 <= told.request_timeout_seconds, "it is renewed after a third"


@pytest.mark.parametrize("period", [0.5, 5.0, 30.0, 600.0])
def test_a_turn_is_over_before_the_next_run_of_the_same_beat_and_keeps_another_beats_out(period: float) -> None:
    """A tick may be a tenth early or late; one of another beat comes anywhere between."""
    assert turn_seconds(period) < 0.9 * period
    assert turn_seconds(period) > 0.5 * period


# -- lists and ranges ------------------------------------------------------------------------------
LISTS = {"kinds": "kind_list", "gpu_resources": "gpu_resource_list", "namespaces": "namespace_list"} | {
    "namespaces_excluded": "excluded_namespace_list",
    "gpu_fault_conditions": "gpu_fault_condition_list",
}
TEXTS: dict[str, tuple[str, ...]] = {
    "": (),
    " ": (),
    ",": (),
    "a": ("a",),
    "b,a": ("a", "b"),
    " a , b ": ("a", "b"),
    "a,,b,": ("a", "b"),
    "a,b,a": ("a", "b"),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_list_has_each_name_once_without_blanks(name: str, text: str) -> None:
    assert getattr(Settings.model_validate({name: text}), LISTS[name]) == TEXTS[text]


@pytest.mark.parametrize(("text", "want"), [("", ()), (KEY, (KEY,)), (f"{OTHER},{KEY}", (OTHER, KEY))])
def test_the_order_of_the_record_keys_is_kept_since_the_first_seals(text: str, want: tuple[str, ...]) -> None:
    assert Settings(record_keys=text).record_key_list == want


@pytest.mark.parametrize(
    ("text", "want"),
    [("", None), ("20000-29999", (20000, 29999)), ("3000-3000", (3000, 3000)), ("9999-10000", (9999, 10000))],
)
def test_the_range_of_host_ports(text: str, want: Any) -> None:
    assert Settings(host_ports=text).host_port_range == want


# -- the operator's own namespace ------------------------------------------------------------------
@dataclass(frozen=True)
class Own:
    given: str = ""
    pod: str | None = None
    kubeconfig: str = ""
    leader: str = ""
    want: str = ""
    want_lease: str = "default"


OWN: dict[str, Own] = {
    "outside of a cluster it has none": Own(),
    "in a pod it is the pod's": Own(pod="tj-system\n", want="tj-system", want_lease="tj-system"),
    "what is said wins": Own(given="mine", pod="tj-system", want="mine", want_lease="mine"),
    "with a kubeconfig the pod's says nothing": Own(pod="tj-system", kubeconfig="/x"),
    "what is said holds with a kubeconfig": Own(given="mine", kubeconfig="/x", want="mine", want_lease="mine"),
    "the Lease may be elsewhere": Own(given="mine", leader="leases", want="mine", want_lease="leases"),
    "and without an own namespace, too": Own(leader="leases", want_lease="leases"),
}


@pytest.mark.parametrize("sentence", OWN)
def test_its_own_namespace_and_that_of_the_lease(
    sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = OWN[sentence]
    if case.pod is not None:
        (tmp_path / "namespace").write_text(case.pod)
        monkeypatch.setattr(settings, "_POD_NAMESPACE", tmp_path / "namespace")
    if case.kubeconfig:
        monkeypatch.setenv("KUBECONFIG", case.kubeconfig)
    told = Settings(own_namespace=case.given, leader_namespace=case.leader)
    assert (told.own_namespace, told.lease_namespace) == (case.want, case.want_lease)


@pytest.mark.parametrize(
    ("served", "taken"),
    [("", True), ("team-a", True), ("tj-system-2", True), ("tj-system", False), ("a, tj-system ,b", False)],
)
def test_the_operator_does_not_serve_the_namespace_that_it_lives_in(
    served: str, taken: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "namespace").write_text("tj-system")
    monkeypatch.setattr(settings, "_POD_NAMESPACE", tmp_path / "namespace")
    both: tuple[dict[str, Any], ...] = ({}, {"own_namespace": "tj-system"})
    for given in both:
        if taken:
            assert Settings(namespaces=served, **given).own_namespace == "tj-system"
        else:
            with pytest.raises(ValidationError, match="the operator's own namespace"):
                Settings(namespaces=served, **given)


@pytest.mark.parametrize("option", ["password", "username"])
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_password_among_the_options_of_a_url_is_refused_with_where_it_belongs(scheme: str, option: str) -> None:
    words = f"its option {option} belongs before the host: {scheme}://USER:PASSWORD@HOST"
    for url in (f"{scheme}://h/0?{option}=x", f"{scheme}://h/0?db=1&{option}="):
        with pytest.raises(ValidationError, match=words):
            Settings(redis_url=url)
    assert Settings(redis_url=f"{scheme}://h/0?xpassword=x").redis_url
