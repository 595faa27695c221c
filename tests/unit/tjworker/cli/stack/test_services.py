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
    )
    return {service.name: service for service in services.build(plan)}


def test_flower_only_shows_and_answers_to_the_names_of_this_machine(tmp_path: Path) -> None:
    flower = build(tmp_path)["flower"]
    assert flower.argv[1:] == ("-m", "tjworker.cli.stack.flower", "--address=127.0.0.1", "--port=2")
    assert flower.env["FLOWER_READ_ONLY"] == "true"


def test_who_wants_flowers_buttons_says_so(tmp_path: Path) -> None:
    assert build(tmp_path, FLOWER_READ_ONLY="false")["flower"].env["FLOWER_READ_ONLY"] == "false"
