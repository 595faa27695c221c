"""What settings must keep to among themselves, and what is made of the operator's own namespace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tjworker import settings
from tjworker.settings import Settings, turn_seconds

KEY = "k" * 32


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the environment, and in no pod."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TJ_{name.upper()}", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(settings, "_POD_NAMESPACE", tmp_path / "none")


def test_what_is_secret_is_shown_nowhere() -> None:
    assert set(settings.SECRET) == {"redis_url", "record_keys", "history_url", "page_basic_auth"}
    url = f"postgresql://tj:{KEY}@db/tj"
    assert KEY not in repr(Settings(record_keys=KEY, page_basic_auth=f"me:{KEY}", history_url=url))


REFUSED: dict[str, tuple[str, ...]] = {
    "record_keys": ("k" * 31, f"{KEY},", f",{KEY}", f"{KEY}, {KEY}", f"{KEY},short"),
    "page_access": ("", "none", "Token"),
    "page_basic_auth": ("me", "me:1234567", ":12345678", "me:1234 5678"),
    "reports_url": ("http://a:1", "https://a/b", "https://"),
    "history_url": ("mysql://a/b", "sqlite:///here.db", "postgresql://", "redis://a"),
    "key_prefix": ("", "A", "a:b", "a" * 33, "a\n"),
    "host_ports": ("1023-2000", "30000-65536", "30000-20000", "20000", "1-2"),
}
"""Values with which a process would not keep a secret, or take what is another's."""


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in REFUSED.items() for text in texts])
def test_it_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({name: text})


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
