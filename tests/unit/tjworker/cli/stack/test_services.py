"""The processes of a local stack, as data: what each is told."""

from __future__ import annotations

from pathlib import Path

from tjworker.cli.stack import services
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.services import Service, StackOptions, StackPlan


def build(folder: Path, **environment: str) -> dict[str, Service]:
    options = StackOptions(folder, None, None, None, nodes=1, node_cpu="", control_plane="local")
    plan = StackPlan(
        options,
        StatePaths(folder),
        folder,
        environment,
        redis_url="redis://127.0.0.1:1/0",
        tasks_url="redis://127.0.0.1:1/0",
        redis_binary=None,
        key_prefix="tj",
        record_keys="k" * 64,
        api_port=1,
        flower_port=2,
        health_port=3,
        metrics_ports={name: 10 + n for n, name in enumerate(services.MEASURED)},
    )
    return {service.name: service for service in services.build(plan)}


def test_flower_only_shows_and_answers_to_the_names_of_this_machine(tmp_path: Path) -> None:
    flower = build(tmp_path)["flower"]
    assert flower.argv[1:] == ("-m", "tjworker.cli.stack.flower", "--address=127.0.0.1", "--port=2")
    assert flower.env["FLOWER_READ_ONLY"] == "true"


def test_who_wants_flowers_buttons_says_so(tmp_path: Path) -> None:
    assert build(tmp_path, FLOWER_READ_ONLY="false")["flower"].env["FLOWER_READ_ONLY"] == "false"


def test_no_two_processes_of_one_machine_are_given_the_same_port(tmp_path: Path) -> None:
    """Also where the user's shell names one."""
    built = build(tmp_path, TJ_HEALTH_PORT="8080", TJ_METRICS_PORT="9464")
    for name in ("TJ_HEALTH_PORT", "TJ_METRICS_PORT"):
        given = [service.env[name] for service in built.values() if service.env.get(name, "0") != "0"]
        assert len(given) == len(set(given))
    assert built["watcher"].env["TJ_HEALTH_PORT"] == "3"
    told = {name: service.env["TJ_METRICS_PORT"] for name, service in built.items() if name in services.MEASURED}
    assert told == {"watcher": "10", "worker1": "11", "worker2": "12", "beat": "13"}
    assert {built[name].env["TJ_METRICS_HOST"] for name in told} == {"127.0.0.1"}, "nobody else's"
