"""The local stack from the choice of its ports to its end: `run(options, body)` is all that `tj up` and `tj demo` do.

Owns the state folder while it runs; ends what an earlier, killed stack left in it before it starts anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tjstack import lock, ports, processes, redis_server, services
from tjstack.paths import StatePaths, project_root
from tjstack.services import StackOptions, StackPlan
from tjstack.supervisor import Handle, Supervisor
from tjworker.cli.console import echo
from tjworker.cli.errors import UserError

FLOWER_PORT = 5555
PAGE_PORT = 8088
API_PORT = 6443


@dataclass(frozen=True, slots=True)
class Stack:
    """What `body` knows of a running stack."""

    plan: StackPlan
    handle: Handle

    @property
    def flower_url(self) -> str:
        return f"http://127.0.0.1:{self.plan.flower_port}"

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self.plan.page_port}"


Say = Callable[[str], None]


def run(options: StackOptions, say: Say, body: Callable[[Stack], int]) -> int:
    """Start the stack, run `body` once it is ready, stop the stack. Returns what Supervisor.run returns; raises
    UserError."""
    paths = StatePaths(options.state_dir.resolve())
    if options.kinds is not None:
        os.environ["TJ_KINDS"] = options.kinds  # before anything reads the settings of this process
    with lock.take(paths) as held, ports.Claims() as claims:
        swept = processes.end_all(paths, grace_seconds=3.0)
        if swept:
            say(f"an earlier stack in {paths.root} had left {swept} process{'es' if swept > 1 else ''}: ended")
        plan = _make_plan(options, paths, say, claims)
        return Supervisor(services.build(plan), paths, held, say).run(lambda handle: body(Stack(plan, handle)))


def _make_plan(options: StackOptions, paths: StatePaths, say: Say, claims: ports.Claims) -> StackPlan:
    """Choose ports and Redis, write Redis' configuration. Raises UserError when a port that was asked for is taken."""
    root = project_root()
    _check_complete(root)
    _check_settings()
    if options.control_plane == "real":
        check_installed("controlplane")
        _check_control_plane(root)
    given, prefix, binary = os.environ.get("TJ_REDIS_URL", ""), os.environ.get("TJ_KEY_PREFIX", ""), None
    version = _check_redis(given) if given else ""
    for folder in (paths.logs, paths.redis_data, paths.cluster_data, paths.reports_tls):
        folder.mkdir(parents=True, exist_ok=True)
    paths.kubeconfig.unlink(missing_ok=True)  # when it appears, the cluster serves

    def port(what: str, option: str, asked: int | None, preferred: int) -> int:
        number, note = claims.choose(what, option, asked, preferred)
        if note:
            say(note)
        return number

    api_port = port("the API server", "--api-port", options.api_port, API_PORT)
    flower_port = port("Flower", "--flower-port", options.flower_port, FLOWER_PORT)
    health_port = port("the watcher's health", "", None, 0)
    reports_port = port("the report server", "", None, 0)
    page_port = port("the page", "--page-port", options.page_port, PAGE_PORT)
    if given:
        urls = redis_server.Urls(given, given, given)
        # Two stacks, and other programs, may share one Redis: each stack has its own keys.
        prefix = prefix or f"tj-{hashlib.sha256(str(paths.root).encode()).hexdigest()[:8]}"
        say(f"Redis of TJ_REDIS_URL is used: {version}, keys start with {prefix}")
    else:
        binary = redis_server.find_binary(os.environ.get("PATH"))
        urls = redis_server.configure(paths, port("Redis", "--redis-port", options.redis_port, 0), prefix or "tj")
    plan = StackPlan(
        options,
        paths=paths,
        root=root,
        environment=dict(os.environ),
        redis_url=urls.operator,
        tasks_url=urls.tasks,
        page_url=urls.page,
        redis_binary=binary,
        key_prefix=prefix or "tj",
        # As Redis' password, new with each start: the watcher then lists everything once.
        record_keys=os.environ.get(services.RECORD_KEYS) or secrets.token_urlsafe(32),
        api_port=api_port,
        flower_port=flower_port,
        health_port=health_port,
        reports_port=reports_port,
        page_port=page_port,
        metrics_ports={name: port(f"{name}'s metrics", "", None, 0) for name in services.MEASURED},
    )
    _write_files(plan)
    return plan


def _write_files(plan: StackPlan) -> None:
    """For a shell and for Prometheus; and the report server's certificate, by links to what the cluster will make."""
    for name, target in services.certificate_of_cluster(plan).items():
        link = plan.paths.reports_tls / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    targets = json.dumps(plan.scrape_targets, indent=2) + "\n"
    plan.paths.scrape_targets.write_text(targets, encoding="utf-8")
    settings = {k: v for k, v in services.operator_environment(plan).items() if k.startswith("TJ_")}
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(settings.items()))
    redis_server.write_private(plan.paths.environment, text)


def check_installed(package: str) -> None:
    """For a package of a checkout that no distribution requires. Raises UserError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:  # without an origin: only the folder of that name in a checkout
        raise UserError(
            f"the package {package} is not installed in {sys.prefix}: run `make up` in a checkout of the project, or "
            f"there `{sys.executable} -m pip install ./{package}`"
        )


def _check_control_plane(root: Path) -> None:
    """Its programs take minutes to build: nothing that a start should do by surprise."""
    command = [sys.executable, "-m", "controlplane", "build", "--check"]
    checked = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        raise UserError(checked.stderr.strip())


def _check_settings() -> None:
    """Refuse a wrong variable once, before the processes of the operator would, and warn here of a name that is no
    setting: each process warns in its log, where the user of a new stack does not look."""
    from tjworker.cli.kinds import chosen_kinds
    from tjworker.settings import settings_or_exit, unknown_variables

    try:
        settings_or_exit()
    except SystemExit as refusal:
        raise UserError(str(refusal)) from None
    chosen_kinds()  # raises UserError for a name that is no kind's
    for warning in unknown_variables(os.environ).values():
        echo(f"warning: {warning}", err=True)


def _check_redis(redis_url: str) -> str:
    """Return the address without its password. Raises UserError where Redis does not answer: without this check,
    workers would never become ready, and their log alone would say why."""
    import redis

    from tjworker.store.connect import client
    from tjworker.store.errors import describe

    shown = "no address"
    try:
        shown = describe(redis_url)
        with client(redis_url) as connection:
            connection.ping()
    except (redis.RedisError, ValueError) as error:
        raise UserError(
            f"Redis of TJ_REDIS_URL ({shown}) cannot be used: {error}; start it, correct TJ_REDIS_URL, or unset it: the"
            " stack then has a Redis of its own"
        ) from None
    return shown


def _check_complete(root: Path) -> None:
    for needed in (root / "k8s" / "crds", services.kubectl_path()):
        if not needed.exists():
            raise UserError(
                f"{needed} is missing: run `make up` in a checkout of the project, which sets everything up"
            )
