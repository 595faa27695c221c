"""docker-compose.yml on a real container engine, by the commands of its first lines: `make test-compose`.

Skipped where no engine answers. tests/integration/test_deployment_compose.py plays the same file as plain processes.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.valkey import free_port
from tests.compose.engine import (
    BUILD_SECONDS,
    CommandError,
    NoEngineError,
    base_images,
    default_images,
    docker,
    find_engine,
)
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import until

pytestmark = [
    pytest.mark.xdist_group("engine"),
    pytest.mark.skipif("TJ_COMPOSE" not in os.environ, reason="needs a container engine: make test-compose"),
]
Json = dict[str, Any]
LONG_RUNNING = ("redis", "localcluster", "watcher", "worker", "reporter", "beat", "flower", "page")
START_SECONDS = 900.0
"""From `up` until every service is healthy."""
TRAINING_SECONDS = 900.0
COPIED = ("docker-compose.yml", "Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE", "requirements")
COPIED_CODE = ("beat_schedule.py", "tjworker", "watcher", "localcluster", "k8s", "examples")


@dataclass(frozen=True, slots=True)
class Project:
    """A copy of the tree with an `.env` of its own, so that the checkout stays as it is."""

    folder: Path
    name: str
    env: dict[str, str]
    profiles: tuple[str, ...] = ("--profile", "local")

    def compose(self, *words: str, timeout_seconds: float = 300.0, environment: Mapping[str, str] | None = None) -> str:
        names = ("compose", "--project-name", self.name, "--project-directory", str(self.folder))
        files = ("-f", str(self.folder / "docker-compose.yml"))
        return docker(*names, *files, *self.profiles, *words, timeout_seconds=timeout_seconds, environment=environment)

    def containers(self, service: str = "") -> list[Json]:
        """As `docker compose ps --all` tells of them."""
        lines = self.compose("ps", "--all", "--format", "json", *([service] if service else [])).splitlines()
        return [json.loads(line) for line in lines]

    def started_at(self, service: str) -> set[str]:
        found = [
            docker("inspect", "--format", "{{.State.StartedAt}}", c["ID"]).strip() for c in self.containers(service)
        ]
        return set(found)

    def are_healthy(self, *services: str, each: int = 1) -> bool:
        """`each`: so many containers of each service at least."""
        found = self.containers()
        of = {service: [c["Health"] == "healthy" for c in found if c["Service"] == service] for service in services}
        return all(len(healthy) >= each and all(healthy) for healthy in of.values())

    def kubectl(self, *words: str) -> str:
        return self.compose("exec", "-T", "localcluster", "kubectl", "--kubeconfig", "/kube/config", *words)

    def phase_of(self, job: str) -> str:
        return self.kubectl("get", "aitj", job, "--ignore-not-found", "-o", "jsonpath={.status.phase}")

    def logs(self) -> str:
        return self.compose("ps", "--all") + self.compose("logs", "--tail", "15", "--no-color")

    def until(self, what: str, condition: Callable[[], object], within_seconds: float = 600.0) -> None:
        refused = ""

        def holds() -> object:
            # On a busy machine kubectl gives up after 10 s for TLS: that look has seen nothing.
            nonlocal refused
            try:
                return condition()
            except CommandError as error:
                refused = str(error)
                return False

        until(what, holds, within_seconds, context=lambda: f"{refused}\n{self.logs()}", look_seconds=0.5)


def first_lines() -> list[str]:
    """The commands that docker-compose.yml begins with, each on one line."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8").partition("\nname:")[0]
    text = re.sub(r" \\\n#\s+", " ", text)
    return [line.removeprefix("#   ").partition("   ")[0].strip() for line in text.splitlines() if line[:4] == "#   "]


def copy_of_the_tree(folder: Path) -> Path:
    for name in (*COPIED, *COPIED_CODE):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The stack with a cluster of its own, started as the first lines of the file say."""
    try:
        found = find_engine()
        images = base_images(default_images())
    except NoEngineError as missing:
        pytest.skip(str(missing))
    folder = copy_of_the_tree(tmp_path_factory.mktemp("compose"))
    make_env, up, *_ = first_lines()
    subprocess.run(make_env, shell=True, cwd=folder, check=True)  # noqa: S602  the line that a user pastes
    assert (folder / ".env").stat().st_mode & 0o077 == 0
    ports = {f"{name}_PUBLISHED_PORT": free_port() for name in ("FLOWER", "PAGE", "LOCAL_API")}
    with (folder / ".env").open("a", encoding="utf-8") as file:
        file.write(f"PYTHON_IMAGE={images.python}\nREDIS_IMAGE={images.redis}\n")
        file.writelines(f"{name}={port}\n" for name, port in ports.items())
    env = dict(line.split("=", 1) for line in (folder / ".env").read_text(encoding="utf-8").splitlines())
    made = Project(folder, f"tjtest{os.getpid()}", env)
    print(f"{found}; base images {images.python}, {images.redis}")  # noqa: T201  what was tested
    try:
        words = up.removeprefix("docker compose --profile local ").split()
        made.compose(*words, "--detach", timeout_seconds=BUILD_SECONDS)
        made.until("every service is healthy", lambda: made.are_healthy(*LONG_RUNNING), START_SECONDS)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "5")


def look(project: Project, service: str, path: str, credentials: str = "") -> tuple[int, str]:
    """GET, from this machine: (status, body)."""
    request = urllib.request.Request(f"http://127.0.0.1:{project.env[f'{service}_PUBLISHED_PORT']}{path}")
    if credentials:
        request.add_header("Authorization", f"Basic {base64.b64encode(credentials.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  the loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def kill(container: str) -> None:
    """As a crash does. `docker kill` would tell the engine that somebody wants the container stopped."""
    os.kill(int(docker("inspect", "--format", "{{.State.Pid}}", container)), 9)


def run_job(project: Project, name: str) -> None:
    manifest = yaml.safe_dump(
        {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": name},
            "spec": {
                "replicaSpecs": {
                    "trainer": {
                        "replicas": 2,
                        "template": {
                            "spec": {"containers": [{"name": "aitj-main", "image": "none", "command": ["true"]}]}
                        },
                    }
                }
            },
        }
    )
    (project.folder / "job.yaml").write_text(manifest, encoding="utf-8")
    project.compose("cp", str(project.folder / "job.yaml"), "localcluster:/data/job.yaml")
    # A local cluster that was killed just now may not listen yet.
    project.until(f"{name} is made", lambda: project.kubectl("apply", "-f", "/data/job.yaml"))
    project.until(f"{name} has succeeded", lambda: project.phase_of(name) == "Succeed", 600.0)


def test_services_that_prepare_have_ended_well(project: Project) -> None:
    for service in ("setup", "crds"):
        (container,) = project.containers(service)
        assert (container["State"], container["ExitCode"]) == ("exited", 0), service


def test_the_example_trains_to_its_end_through_a_kill_of_every_worker(project: Project) -> None:
    *_, apply = first_lines()
    project.compose(*apply.removeprefix("docker compose --profile local ").split())
    project.until("digits runs", lambda: project.phase_of("digits") == "Running")
    for container in project.containers("worker"):
        kill(container["ID"])
    project.until("digits has succeeded", lambda: project.phase_of("digits") == "Succeed", TRAINING_SECONDS)
    # The report server writes a job at most every ten seconds, so its last report may come after its end.
    progress = ("get", "aitj", "digits", "-o", "jsonpath={.status.trainerStatus.progressPercentage}")
    project.until("the last report is written", lambda: project.kubectl(*progress) == "100", 60.0)
    log = project.kubectl("logs", "digits-master-0", "--tail", "1")
    assert re.search(r"accuracy 0\.[89]", log), log


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_the_engine_restarts_a_service_that_was_killed(project: Project, service: str) -> None:
    before = project.started_at(service)
    for container in project.containers(service):
        kill(container["ID"])
    project.until(f"{service} is started again", lambda: not project.started_at(service) & before)
    run_job(project, f"after-{service}")


def test_every_service_is_healthy_after_its_restart(project: Project) -> None:
    """Checked at the end of all of them: engines before 25 look at health every 30 s, from the first time on."""
    project.until("every service is healthy", lambda: project.are_healthy(*LONG_RUNNING))


def test_flower_shows_itself_to_its_password_alone(project: Project) -> None:
    assert look(project, "FLOWER", "/")[0] == 401
    assert look(project, "FLOWER", "/", "admin:wrong")[0] == 401
    status, page = look(project, "FLOWER", "/workers", project.env["FLOWER_BASIC_AUTH"])
    assert (status, "celery@" in page) == (200, True)


def test_the_page_shows_the_job_its_progress_and_its_log_to_its_password_alone(project: Project) -> None:
    assert look(project, "PAGE", "/")[0] == look(project, "PAGE", "/", project.env["FLOWER_BASIC_AUTH"])[0] == 401
    path = "aitrainingjobs.elasticdeeplearning.ai/default/digits"
    for view, words in (("/", "digits"), (f"/jobs/{path}", "100"), (f"/logs/{path}?role=master", "accuracy")):
        status, page = look(project, "PAGE", view, project.env["PAGE_BASIC_AUTH"])
        assert (status, words in page) == (200, True), (view, page[-2000:])


def test_workers_are_scaled(project: Project) -> None:
    project.compose("up", "--detach", "--scale", "worker=4", timeout_seconds=START_SECONDS)
    project.until("four workers are healthy", lambda: project.are_healthy("worker", each=4))
    run_job(project, "four-workers")


def test_jobs_and_queue_outlive_down_and_up(project: Project) -> None:
    jobs = project.kubectl("get", "aitj", "-o", "name")
    project.compose("down")
    assert not project.containers()
    project.compose("up", "--detach", timeout_seconds=START_SECONDS)
    project.until("every service is healthy", lambda: project.are_healthy(*LONG_RUNNING))
    assert project.kubectl("get", "aitj", "-o", "name") == jobs
    assert "DB loaded from append only file" in project.compose("logs", "redis")
    run_job(project, "after-down-and-up")


def test_other_passwords_in_env_count_from_the_next_up_on(project: Project) -> None:
    file = project.folder / ".env"
    changed, count = re.subn(r"(?m)^(REDIS_\w+)=\w{48}$", rf"\1={'c0ffee' * 8}", file.read_text(encoding="utf-8"))
    assert count == 3
    file.write_text(changed, encoding="utf-8")
    project.compose("up", "--detach", timeout_seconds=START_SECONDS)
    project.until("every service is healthy", lambda: project.are_healthy(*LONG_RUNNING))
    run_job(project, "after-other-passwords")


# -- bad input: what docs/operations.md says that the stack answers ------------------------------------
def refusal(command: Callable[..., str], *words: str, **options: Any) -> str:
    """Everything that a command says which must fail."""
    with pytest.raises(CommandError) as refused:
        command(*words, **options)
    return f"{refused.value.stdout}{refused.value.stderr}"


def without_an_engine(project: Project, folder: Path) -> str:
    return refusal(project.compose, "up", "--detach", environment={"DOCKER_HOST": f"unix://{folder}/no.sock"})


def without_env(project: Project, folder: Path) -> str:
    return refusal(Project(copy_of_the_tree(folder), f"{project.name}bare", {}).compose, "up", "--detach")


def with_a_port_in_use(project: Project, folder: Path) -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refusal(project.compose, "up", "--detach", "flower", environment={"FLOWER_PUBLISHED_PORT": port})
    assert f"127.0.0.1:{port}" in said
    project.compose("up", "--detach", "flower")
    return said


def with_a_password_that_breaks_the_url(project: Project, folder: Path) -> str:
    return refusal(project.compose, "run", "--rm", "-T", "--no-deps", "-e", "REDIS_PASSWORD=p@ss", "setup")


def with_a_wrong_password(project: Project, folder: Path) -> str:
    url = redis_url("wrong")
    return refusal(project.compose, "exec", "-T", "-e", f"TJ_REDIS_URL={url}", "worker", "tj", "doctor")


FULL = {"volumes": {"redis": {"driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=4m,uid=999,gid=1000"}}}}


def with_a_full_disk(project: Project, folder: Path) -> str:
    """Of Redis, in a stack of its own. Compose would build the image for `run` once more."""
    override = folder / "full.yml"
    override.write_text(yaml.safe_dump(FULL), encoding="utf-8")
    full = Project(project.folder, f"{project.name}full", project.env, (*project.profiles, "-f", str(override)))
    doctor = ["run", "--rm", "--network", f"{full.name}_default", "--volume", f"{full.name}_redis-ca:/etc/redis-ca:ro"]
    # Not `project.env`: another test has changed the passwords since.
    (password,) = re.findall(r"(?m)^REDIS_PASSWORD=(\w+)$", (project.folder / ".env").read_text(encoding="utf-8"))
    doctor += ["--env", f"TJ_REDIS_URL={redis_url(password)}"]
    doctor += ["localhost/trainingjob-operator:0.1.0", "tj", "doctor"]
    said = ""

    def is_named() -> bool:
        nonlocal said
        said = refusal(docker, *doctor)
        return "disk is full" in said

    try:
        full.compose("up", "--detach", "redis")
        full.until("Redis is healthy", lambda: full.are_healthy("redis"))
        with contextlib.suppress(CommandError):
            full.compose("exec", "-T", "redis", "sh", "-c", "cat /dev/zero > /data/full")
        full.until("it is named", is_named)
    finally:
        full.compose("down", "--volumes", "--timeout", "5")
    return said


def redis_url(password: str) -> str:
    return f"rediss://tj:{password}@redis:6379/0?ssl_ca_certs=/etc/redis-ca/ca.crt"


CAUSES = {
    "Cannot connect to the Docker daemon": without_an_engine,
    "set it in .env, as the first lines of docker-compose.yml show": without_env,
    "address already in use": with_a_port_in_use,
    "REDIS_PASSWORD holds other characters": with_a_password_that_breaks_the_url,
    "refuses the user of TJ_REDIS_URL": with_a_wrong_password,
    "most often the disk is full": with_a_full_disk,
}


def answers_of_the_page() -> list[str]:
    """The first column of its table."""
    table = (ROOT / "docs/operations.md").read_text(encoding="utf-8").partition("\n| compose says | do |\n")[2]
    return re.findall(r"(?m)^\| `([^`]+)`", table.partition("\n\n")[0])


@pytest.mark.parametrize("words", answers_of_the_page())
def test_bad_input_is_answered_with(words: str, project: Project, tmp_path: Path) -> None:
    assert words in CAUSES[words](project, tmp_path)


@contextlib.contextmanager
def forwarded(host: str, port: int) -> Iterator[int]:
    """A port of `host` that leads to a port of the loopback."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                upstream = socket.create_connection(("127.0.0.1", port))
                for pair in ((client, upstream), (upstream, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with socket.create_server((host, 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_the_cluster_of_a_kubeconfig_is_operated(project: Project, tmp_path: Path) -> None:
    """The real control plane. No kubelet is there, so the job's pods wait for a node."""
    control_plane = pytest.importorskip("controlplane")
    subnet = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Subnet}}").strip()
    gateway = str(next(ipaddress.ip_network(subnet).hosts()))
    with control_plane.ControlPlane() as plane:
        config = json.loads(Path(plane.kubeconfig).read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        with forwarded(gateway, int(cluster["server"].rpartition(":")[2])) as port:
            own = tmp_path / "kube"
            own.mkdir()
            shared = {**cluster, "server": f"https://{gateway}:{port}", "tls-server-name": "127.0.0.1"}
            config["clusters"][0]["cluster"] = shared
            (own / "config").write_text(json.dumps(config), encoding="utf-8")
            kubectl = [str(ROOT / ".venv/bin/kubectl"), "--kubeconfig", str(plane.kubeconfig)]
            subprocess.run([*kubectl, "apply", "--server-side", "-f", str(ROOT / "k8s/crds")], check=True)
            other = Project(project.folder, f"{project.name}own", project.env, profiles=())
            settings = {"KUBE_DIR": str(own), "RUN_AS": f"{os.getuid()}:{os.getgid()}"}
            settings |= {f"{name}_PUBLISHED_PORT": str(free_port()) for name in ("FLOWER", "PAGE")}
            try:
                other.compose("up", "--detach", timeout_seconds=START_SECONDS, environment=settings)
                subprocess.run([*kubectl, "apply", "-f", str(ROOT / "examples/digits/job.yaml")], check=True)
                pods = [*kubectl, "get", "pods", "-o", "name"]
                other.until("pods are made", lambda: "pod/digits-trainer-1" in subprocess.check_output(pods, text=True))
            finally:
                other.compose("down", "--volumes", "--timeout", "5", environment=settings)


def test_down_with_volumes_leaves_nothing(project: Project) -> None:
    project.compose("down", "--volumes")
    mine = ("--quiet", "--filter", f"label=com.docker.compose.project={project.name}")
    assert docker("ps", "--all", *mine) == docker("volume", "ls", *mine) == docker("network", "ls", *mine) == ""
