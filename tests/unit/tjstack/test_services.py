"""The processes of a local stack, as data: what each is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tjstack import services
from tjstack.paths import StatePaths
from tjstack.services import Service, StackOptions, StackPlan

REDIS, TASKS = "redis://tj@127.0.0.1:1/0", "redis://tj-tasks@127.0.0.1:1/0"
OPERATOR = ("watcher", "worker1", "worker2", "beat", "flower")


def build(
    folder: Path, *, control_plane: str = "local", own_redis: bool = False, **environment: str
) -> dict[str, Service]:
    options = StackOptions(folder, None, None, None, None, nodes=1, node_cpu="", control_plane=control_plane)
    plan = StackPlan(
        options,
        StatePaths(folder),
        folder,
        environment,
        redis_url=REDIS,
        tasks_url=TASKS,
        page_url="redis://127.0.0.1:2/1",
        redis_binary=Path("/usr/bin/valkey-server") if own_redis else None,
        key_prefix="tj",
        record_keys="k" * 64,
        api_port=1,
        flower_port=2,
        health_port=3,
        reports_port=4,
        page_port=8088,
        metrics_ports={name: 10 + n for n, name in enumerate(services.MEASURED)},
    )
    return {service.name: service for service in services.build(plan)}


@pytest.mark.parametrize("control_plane", ["local", "real"])
def test_watcher_and_workers_alone_have_the_record_keys(tmp_path: Path, control_plane: str) -> None:
    made = build(tmp_path, control_plane=control_plane, own_redis=True, TJ_RECORD_KEYS="of the shell", PATH="/bin")
    keys = {name: service.env.get("TJ_RECORD_KEYS") for name, service in made.items()}
    assert {name: key for name, key in keys.items() if key} == dict.fromkeys(
        ("watcher", "worker1", "worker2"), "k" * 64
    )
    assert {"beat", "flower", "redis", "crds"} < keys.keys()
    urls = {name: service.env.get("TJ_REDIS_URL") for name, service in made.items()}
    assert {name for name, url in urls.items() if url == TASKS} == {"beat", "flower"}
    assert {urls[name] for name in ("watcher", "worker1", "worker2")} == {REDIS}


def test_flower_only_shows_and_answers_to_this_machine_alone(tmp_path: Path) -> None:
    """It asks for no password here."""
    flower = build(tmp_path)["flower"]
    assert flower.argv[1:] == ("-m", "tjstack.flower", "--address=127.0.0.1", "--port=2")
    assert flower.env["FLOWER_READ_ONLY"] == "true"
    assert build(tmp_path, FLOWER_READ_ONLY="false")["flower"].env["FLOWER_READ_ONLY"] == "false", "who asks for it"


def test_no_two_processes_of_one_machine_are_given_the_same_port(tmp_path: Path) -> None:
    """Also where the user's shell names one."""
    built = build(tmp_path, TJ_HEALTH_PORT="8080", TJ_METRICS_PORT="9464")
    for name in ("TJ_HEALTH_PORT", "TJ_METRICS_PORT"):
        given = [service.env[name] for service in built.values() if service.env.get(name, "0") != "0"]
        assert len(given) == len(set(given))
    assert built["watcher"].env["TJ_HEALTH_PORT"] == "3"
    told = {name: service.env["TJ_METRICS_PORT"] for name, service in built.items() if name in services.MEASURED}
    assert told == {"watcher": "10", "worker1": "11", "worker2": "12", "beat": "13", "reporter": "14", "page": "15"}
    assert {built[name].env["TJ_METRICS_HOST"] for name in told} == {"127.0.0.1"}, "nobody else's"


# -- tables over all of them -----------------------------------------------------------------------
LOCAL: dict[str, tuple[tuple[str, ...], int]] = {
    "redis": ((), 2),
    "localcluster": ((), 1),
    "crds": (("localcluster",), 0),
    **dict.fromkeys(("watcher", "worker1", "worker2"), (("redis", "crds"), 0)),
    **dict.fromkeys(("beat", "flower"), (("redis",), 0)),
    "reporter": (("crds",), 0),
    "page": (("redis", "crds"), 0),
}
"""After what each starts, and in which stage it is stopped: what others need goes last."""
REAL = {
    "redis": LOCAL["redis"],
    "control-plane": ((), 2),
    "kubelet": (("control-plane",), 1),
    **LOCAL,
    "crds": (("control-plane",), 0),
}


@pytest.mark.parametrize(("control_plane", "want"), [("local", LOCAL), ("real", REAL)])
def test_after_what_each_starts_and_when_it_is_stopped(
    control_plane: str, want: dict[str, tuple[tuple[str, ...], int]], tmp_path: Path
) -> None:
    built = build(tmp_path, control_plane=control_plane, own_redis=True)
    told = {name: (service.after, service.stop_stage) for name, service in built.items()}
    assert told == {name: row for name, row in want.items() if name != "localcluster" or control_plane == "local"}
    without = build(tmp_path, control_plane=control_plane)
    assert set(built) - set(without) == {"redis"}
    assert not any("redis" in service.after for service in without.values()), "that of TJ_REDIS_URL is there"


def test_who_is_given_which_user_of_redis_and_who_the_record_keys(tmp_path: Path) -> None:
    built = build(tmp_path, own_redis=True, TJ_REDIS_URL="redis://of-the-shell", TJ_RECORD_KEYS="of-the-shell")
    urls = {name: built[name].env["TJ_REDIS_URL"] for name in OPERATOR}
    assert urls == {"watcher": REDIS, "worker1": REDIS, "worker2": REDIS, "beat": TASKS, "flower": TASKS}
    keys = {name: service.env["TJ_RECORD_KEYS"] for name, service in built.items() if "TJ_RECORD_KEYS" in service.env}
    assert keys == dict.fromkeys(("watcher", "worker1", "worker2"), "k" * 64)


def test_what_a_pod_inherits_is_nothing_of_the_operators(tmp_path: Path) -> None:
    shell: Any = {
        "TJ_NAMESPACES": "a",
        "KUBECONFIG": "/mine",
        "FLOWER_BASIC_AUTH": "a:b",
        "HOME": "/home/a",
        "PATH": "/bin",
    }
    for control_plane, name in (("local", "localcluster"), ("real", "control-plane"), ("real", "kubelet")):
        env = build(tmp_path, control_plane=control_plane, **shell)[name].env
        here = str(Path(sys.executable).parent)
        assert env == {"HOME": "/home/a", "PATH": f"{here}:/bin", "PYTHONUNBUFFERED": "1"}, name


def test_the_operators_processes_speak_to_the_stacks_cluster_whatever_the_shell_says(tmp_path: Path) -> None:
    built = build(tmp_path, KUBECONFIG="/mine", TJ_KEY_PREFIX="mine", TJ_NAMESPACES="a")
    for name in (*OPERATOR, "crds"):
        env = built[name].env
        assert (env["KUBECONFIG"], env["TJ_KEY_PREFIX"]) == (str(StatePaths(tmp_path).kubeconfig), "tj"), name
        assert env["TJ_NAMESPACES"] == "a", "other settings are the user's"


def test_the_crds_of_the_kinds_that_are_served_are_applied_once(tmp_path: Path) -> None:
    crds = build(tmp_path, TJ_KINDS="tfjobs.kubeflow.org, pytorchjobs.kubeflow.org")["crds"]
    files = [Path(path).relative_to(tmp_path / "k8s") for path in crds.argv if path.startswith(str(tmp_path / "k8s"))]
    kinds = [f"kinds/{kind}.kubeflow.org/crd.yaml" for kind in ("pytorchjobs", "tfjobs")]
    assert [str(file) for file in files] == ["crds", *kinds]
    assert crds.argv.count("-f") == 3
    assert crds.one_shot


def test_the_page_reads_as_a_user_of_its_own_on_loopback_and_links_to_flower(tmp_path: Path) -> None:
    env = build(tmp_path, own_redis=True, TJ_PAGE_HOST="0.0.0.0", TJ_RECORD_KEYS="of-the-shell")["page"].env
    assert env["TJ_REDIS_URL"] == "redis://127.0.0.1:2/1"
    assert "TJ_RECORD_KEYS" not in env
    assert (env["TJ_PAGE_HOST"], env["TJ_PAGE_PORT"], env["TJ_PAGE_ACCESS"]) == ("127.0.0.1", "8088", "kubeconfig")
    assert env["TJ_PAGE_FLOWER_URL"] == "http://127.0.0.1:2"


@pytest.mark.parametrize("control_plane", ["local", "real"])
def test_the_report_server_has_a_certificate_and_neither_redis_nor_its_keys(control_plane: str, tmp_path: Path) -> None:
    built = build(tmp_path, control_plane=control_plane, TJ_REDIS_URL="redis://of-the-shell")
    env = built["reporter"].env
    assert not {"TJ_REDIS_URL", "TJ_RECORD_KEYS"} & env.keys()
    assert (env["TJ_REPORTS_HOST"], env["TJ_REPORTS_PORT"]) == ("127.0.0.1", "4")
    assert env["TJ_REPORTS_TLS_FOLDER"] == str(StatePaths(tmp_path).reports_tls)
    for worker in ("worker1", "worker2"):
        assert built[worker].env["TJ_REPORTS_URL"] == "https://127.0.0.1:4"
        assert built[worker].env["TJ_REPORTS_CA_FILE"] == str(StatePaths(tmp_path).reports_tls / "ca.crt")
