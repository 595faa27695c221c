"""The pure parts: counting the audit log, keys and tokens, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.audit import AuditLog
from controlplane.cli import main


def _line(verb: str, resource: str, user: str = "worker", **more: Any) -> dict[str, Any]:
    about = {"resource": resource, "namespace": more.pop("namespace", "a"), "subresource": more.pop("subresource", "")}
    stage = "ResponseStarted" if verb == "watch" else "ResponseComplete"
    return {"verb": verb, "stage": stage, "user": {"username": user}, "objectRef": about, **more}


LOG = [
    _line("create", "pods"),
    _line("create", "pods"),
    _line("update", "jobs", subresource="status"),
    _line("create", "pods", user="watcher"),
    _line("delete", "pods", namespace="b"),
    _line("watch", "pods"),
    _line("watch", "pods", stage="ResponseComplete"),
    _line("get", "nodes"),
    {"verb": "get", "stage": "ResponseComplete", "user": {"username": "worker"}, "requestURI": "/readyz"},
]
COUNTS: dict[str, tuple[dict[str, str], dict[tuple[str, str], int]]] = {
    "one user's, a watch once and nothing that is no resource": (
        {"user": "worker"},
        {
            ("create", "pods"): 2,
            ("update", "jobs/status"): 1,
            ("delete", "pods"): 1,
            ("watch", "pods"): 1,
            ("get", "nodes"): 1,
        },
    ),
    "of one namespace": ({"user": "worker", "namespace": "b"}, {("delete", "pods"): 1}),
}


@pytest.mark.parametrize(("arguments", "want"), COUNTS.values(), ids=COUNTS.keys())
def test_requests_are_counted(arguments: dict[str, str], want: dict[tuple[str, str], int], tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text("".join(json.dumps(line) + "\n" for line in LOG))
    assert AuditLog(log).count(**arguments) == want


def test_each_request_is_counted_once_and_when_its_line_is_whole(tmp_path: Path) -> None:
    log = AuditLog(path := tmp_path / "audit.log")
    assert (list(log.lines()), log.count()) == ([], {}), "not yet there"
    first, second = (json.dumps(line) + "\n" for line in LOG[:2])
    path.write_text(first + second[:40])
    for look in "once", "again":
        assert log.count() == {("create", "pods"): 1}, look
    assert len(list(log.lines())) == 1
    path.write_text(first + second)
    assert log.count() == {("create", "pods"): 2}
    assert len(list(log.lines())) == 2


def test_a_missing_build_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TJ_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert main(["run", "--data-dir", str(tmp_path / "d"), "--kubeconfig", str(tmp_path / "k")]) == 2
    assert "run `make control-plane`" in capsys.readouterr().err
