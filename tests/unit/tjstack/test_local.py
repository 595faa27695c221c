"""What `tj up` says before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tjstack import services
from tjstack.local import check_installed
from tjstack.paths import StatePaths
from tjstack.services import StackOptions, StackPlan
from tjworker.cli.errors import UserError


def test_a_package_of_the_workbench_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in_a_checkout").mkdir()  # found as a namespace, though nothing is installed
    for package in ("in_a_checkout", "nowhere_at_all"):
        with pytest.raises(UserError, match=rf"{package} is not installed.*pip install ./{package}"):
            check_installed(package)


def test_what_make_sets_up_is_installed() -> None:
    check_installed("controlplane")
    assert "controlplane" not in sys.modules or sys.modules["controlplane"].__file__


@pytest.mark.parametrize("control_plane", ["local", "real"])
def test_watcher_and_workers_alone_have_the_record_keys(tmp_path: Path, control_plane: str) -> None:
    options = StackOptions(tmp_path, None, None, None, None, nodes=1, node_cpu="", control_plane=control_plane)
    plan = StackPlan(
        options,
        paths=StatePaths(tmp_path),
        root=tmp_path,
        environment={"TJ_RECORD_KEYS": "of the shell", "PATH": "/bin"},
        redis_url="redis://127.0.0.1:1/0",
        tasks_url="redis://127.0.0.1:2/0",
        page_url="redis://127.0.0.1:2/1",
        redis_binary=tmp_path / "redis-server",
        key_prefix="tj",
        record_keys="k" * 32,
        api_port=1,
        flower_port=2,
        health_port=3,
        reports_port=4,
        page_port=8088,
    )
    keys = {service.name: service.env.get("TJ_RECORD_KEYS") for service in services.build(plan)}
    assert {name: key for name, key in keys.items() if key} == dict.fromkeys(
        ("watcher", "worker1", "worker2"), "k" * 32
    )
    assert {"beat", "flower", "redis", "crds"} < keys.keys()
    urls = {service.name: service.env.get("TJ_REDIS_URL") for service in services.build(plan)}
    assert {name for name, url in urls.items() if url == plan.tasks_url} == {"beat", "flower"}
    assert {urls[name] for name in ("watcher", "worker1", "worker2")} == {plan.redis_url}
