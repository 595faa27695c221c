"""The whole product as real processes: a job's life, and that it goes on whatever is killed.

One stack for the whole file, in the order of the tests (one xdist group); each test has its own jobs. The job's program
waits for a file, so that the test decides when it ends.
"""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import LocalStack, until
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.promql import OF_THE_TARGET, asked, expressions
from tests.support.scraping import Scraped, value
from tests.support.tiers import one_in
from tjstack import processes
from tjworker.cli.errors import EXIT_LEFT_OUT
from tjworker.telemetry.metrics import CERTIFICATE_ENDS, TABLE

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("stack"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds pods' processes in /proc"),
]

PROGRAM = """
import os, sys, time
print("hello from", os.environ["TRAININGJOB_REPLICA_NAME"], os.environ["TRAININGJOB_REPLICA_INDEX"], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
print("bye", flush=True)
"""


def manifest(name: str, finish: Path, *, replicas: int = 2, **role: Any) -> str:
    container = {"name": "aitj-main", "image": "none", "command": ["python", "-S", "-c", PROGRAM, str(finish)]}
    trainer = {
        "replicas": replicas,
        "minReplicas": 1,
        "maxReplicas": 4,
        "edlPolicy": "Manual",
        "restartPolicy": "OnFailure",
        "restartScope": "Pod",
        "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
        **role,
    }
    return json.dumps(
        {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": name},
            "spec": {"cleanPodPolicy": "None", "replicaSpecs": {"trainer": trainer}},
        }
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    one = LocalStack(tmp_path_factory.mktemp("e2e") / "a state")
    try:
        one.start()
        yield one
    finally:
        one.clear()


@pytest.fixture(scope="module")
def steady(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A job that runs through all the kills: (name, the file that ends it)."""
    finish = tmp_path_factory.mktemp("steady") / "finish"
    stack.kubectl("apply", "-f", "-", stdin=manifest("steady", finish))
    until("steady runs", lambda: len(stack.running_uids("steady")) == 2, context=lambda: explain(stack, "steady"))
    yield "steady", finish
    finish.touch()


def explain(stack: LocalStack, job: str) -> str:
    logs = "".join(
        f"\n== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        for log in sorted(stack.paths.logs.glob("*.log"))
    )
    return json.dumps(stack.job(job), indent=1)[-3000:] + stack.output[-1500:] + logs


WAITED: dict[str, tuple[str, tuple[str, ...], int, tuple[str, ...]]] = {
    # program, options, exit code, lines of the programs
    "what both replicas write is shown, to the last line": (
        "echo begin; sleep 1; echo end",
        (),
        0,
        ("trainer-0 | begin", "trainer-0 | end", "trainer-1 | begin", "trainer-1 | end"),
    ),
    "the end of the job is the exit code": ("echo oh; exit 3", ("--restarts", "0"), 1, ("trainer-0 | oh",)),
    "phases alone": ("echo quiet", ("--quiet",), 0, ()),
}


@pytest.mark.parametrize("name", one_in(2, WAITED))
def test_who_waits_for_a_job_sees_what_it_writes(name: str, stack: LocalStack) -> None:
    program, options, code, want = WAITED[name]
    job = f"waited-{list(WAITED).index(name)}"
    replicas = ("--replicas", "2") if code == 0 else ()
    command = ("run", "--name", job, "--image", "none", "--wait", *replicas, *options, "--", "sh", "-c", program)
    done = stack.tj(*command)
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("trainer-")) == list(want), done.stdout
    assert lines[0].startswith(f"{job}: created in namespace default")
    assert lines[-1].startswith(f"{job}: {'Failed' if code else 'Succeed'}"), "the end comes after the last line"


def test_a_job_runs_is_seen_scales_and_succeeds(stack: LocalStack, tmp_path: Path) -> None:
    finish = tmp_path / "finish"
    stack.kubectl("apply", "-f", "-", stdin=manifest("whole", finish))
    until("it runs", lambda: len(stack.running_uids("whole")) == 2, context=lambda: explain(stack, "whole"))
    until(
        "so it says", lambda: stack.status("whole").get("phase") == "Running", context=lambda: explain(stack, "whole")
    )
    before = stack.running_uids("whole")
    assert sorted(before) == ["whole-trainer-0", "whole-trainer-1"]

    shown = stack.tj("get", "whole")
    assert shown.returncode == 0, shown.stderr
    assert "Running" in shown.stdout
    assert "whole-trainer-1" in shown.stdout

    # A container runs from its first instruction on, some time before its program says anything.
    until("it says hello", lambda: stack.tj("logs", "whole", "--index", "1").stdout)
    logs = stack.tj("logs", "whole", "--index", "1")
    assert logs.stdout.splitlines() == ["trainer-1 | hello from trainer 1"], logs.stderr

    scaled = stack.tj("scale", "whole", "--replicas", "3")
    assert scaled.stdout == "whole: trainer 2 -> 3\n", scaled.stderr
    until("the third runs", lambda: len(stack.running_uids("whole")) == 3, context=lambda: explain(stack, "whole"))
    after = stack.running_uids("whole")
    assert {name: after[name] for name in before} == before, "those that ran go on"

    refused = stack.tj("scale", "whole", "--replicas", "9")
    assert refused.returncode == 1
    assert "maxReplicas" in refused.stderr
    assert stack.tj("get", "nothing").returncode == 1

    suspended = stack.tj("suspend", "whole")
    assert suspended.stdout == "whole: suspended; `tj resume whole` lets it go on\n", suspended.stderr
    until(
        "it waits", lambda: stack.status("whole").get("phase") == "Suspended", context=lambda: explain(stack, "whole")
    )
    assert stack.tj("resume", "whole").stdout == "whole: resumed\n"
    until("they run again", lambda: len(stack.running_uids("whole")) == 3, context=lambda: explain(stack, "whole"))

    finish.touch()
    stack.kubectl("wait", "--for=condition=Succeeded", "aitj/whole", "--timeout=120s")
    status = stack.status("whole")
    assert status["phase"] == "Succeed"
    assert status["scaleRecords"][0]["from"] == 2
    assert status["scaleRecords"][0]["to"] == 3
    ended = stack.tj("logs", "whole", "-f", "--tail", "1")
    assert sorted(ended.stdout.splitlines()) == [f"trainer-{i} | bye" for i in range(3)], ended.stderr
    too_late = stack.tj("scale", "whole", "--replicas", "2")
    assert too_late.returncode == 1
    assert "an end is final" in too_late.stderr


def test_jobs_of_both_kinds_are_told_of_as_they_go(stack: LocalStack, tmp_path: Path) -> None:
    example, finish = (ROOT / "examples" / "training-job-local.yaml").read_text(), tmp_path / "finish"
    assert "; sleep 3'" in example
    job = example.replace("; sleep 3'", f"; while [ ! -e {finish} ]; do sleep 0.1; done'")
    stack.kubectl("apply", "-f", "-", stdin=job)
    running = "job local: Running, 1/1 active"
    until("that it runs is told", lambda: running in stack.output, context=lambda: explain(stack, "local"))
    finish.touch()
    until("its end is told", lambda: "job local: Succeed" in stack.output, context=lambda: explain(stack, "local"))


def test_a_job_trains_from_code_that_it_has_cloned(stack: LocalStack, tmp_path: Path) -> None:
    repository = tmp_path / "digits.git"
    repository.mkdir()
    (repository / "train.py").write_text("for step in range(3): print('step', step, 'loss', 1 / (step + 1))")
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for command in (("init", "-q"), ("add", "train.py"), ("commit", "-q", "-m", "a first trainer")):
        subprocess.run(["git", "-C", str(repository), *who, *command], check=True)
    for name, source in (("cloned", repository), ("nowhere", tmp_path / "nowhere.git")):
        job = json.loads(manifest(name, tmp_path / "unused"))
        config = {"source": f"file://{source}", "destPath": name, "maxFailures": 1}
        job["metadata"]["annotations"] = {"kubedl.io/git-sync-config": json.dumps(config)}
        trainer = job["spec"]["replicaSpecs"]["trainer"]
        trainer["restartPolicy"] = "Never"
        trainer["template"]["spec"]["containers"][0]["command"] = ["python", "-S", f"/{name}/train.py"]
        stack.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    ends = {"cloned": "Succeed", "nowhere": "Failed"}
    until(
        "both have ended",
        lambda: all(stack.status(name).get("completionTime") for name in ends),
        context=lambda: "\n".join(explain(stack, name) for name in ends),
    )
    assert {name: stack.status(name)["phase"] for name in ends} == ends, explain(stack, "cloned")
    assert stack.kubectl("logs", "cloned-trainer-1").splitlines()[-1].startswith("step 2 loss 0.33")
    failure = stack.status("nowhere")["failures"][0]
    assert (failure["container"], failure["exitCode"]) == ("git-sync-code", 1)
    assert "git-sync: given up" in failure["logTail"]


@pytest.mark.long
def test_a_job_of_each_other_operator_is_converted_and_runs(stack: LocalStack) -> None:
    """What examples/kinds has, as processes: those that serve until the others are done, too."""
    files = sorted(str(path) for path in (ROOT / "examples/kinds").glob("*.yaml"))
    made = stack.tj("convert", *files)
    assert made.returncode == EXIT_LEFT_OUT, made.stderr
    names = [job["metadata"]["name"] for job in yaml.safe_load_all(made.stdout)]
    assert len(names) == len(files)
    stack.kubectl("apply", "-f", "-", stdin=made.stdout)
    try:
        for name in names:
            until(
                f"{name} has succeeded",
                lambda name=name: stack.status(name).get("phase") == "Succeed",  # type: ignore[misc]
                context=lambda name=name: explain(stack, name),  # type: ignore[misc]
            )
        assert "rank 1 of 3, master pytorchjob-master-0:23456" in stack.kubectl("logs", "pytorchjob-worker-0")
        assert "worker 1 of 2, servers volcano-job-ps-0" in stack.kubectl("logs", "volcano-job-worker-1")
    finally:
        stack.kubectl("delete", "aitj", *names, check=False)


COUNTED: tuple[tuple[str, dict[str, str]], ...] = (
    ("tj_watcher_leading", {}),
    ("tj_jobs", {"kind": "AITrainingJob", "phase": "Succeed"}),
    ("tj_cluster_allocatable", {"resource": "cpu"}),
    ("tj_pass_duration_seconds_count", {"result": "done"}),
    ("tj_job_time_to_running_seconds_count", {"kind": "AITrainingJob"}),
    ("tj_job_ends_total", {"kind": "AITrainingJob", "phase": "Succeed"}),
    ("tj_beat_sent_total", {"task": "autoscale"}),
    ("tj_api_requests_total", {"verb": "POST", "code": "201"}),
)


def test_every_process_shows_its_metrics_as_they_are_declared(stack: LocalStack) -> None:
    processes_shown = ("watcher", "worker1", "worker2", "beat", "reporter", "page")
    found: dict[str, list[Scraped]] = {}

    def scraped() -> list[Scraped]:
        found.update({name: stack.metrics(name) for name in processes_shown})
        return [one for samples in found.values() for one in samples]

    wanted_of_all = {wanted.series for expression in expressions().values() for wanted in asked(expression)}
    wanted_of_all -= {CERTIFICATE_ENDS.name}

    def missing() -> list[object]:
        shown = scraped()
        counted = [(name, labels) for name, labels in COUNTED if value(shown, name, **labels) <= 0]
        return [*counted, *sorted(wanted_of_all - {sample.name for sample in shown})]

    # A process counts after it has done: the first job may have ended a moment ago.
    until("every series is shown, every event counted", lambda: not missing(), context=lambda: f"missing: {missing()}")
    shown = scraped()
    declared = {metric.name: metric for metric in TABLE}
    for name, samples in found.items():
        for one in samples:
            metric = declared[re.sub("_(bucket|count|sum)$", "", one.name)]
            assert set(one.labels) - {"le"} == set(metric.labels), one
            assert name.rstrip("12") in {process.split()[-1] for process in metric.by}, (one.name, name)
    assert value(shown, "tj_watcher_leading") == 1
    for where, expression in expressions().items():
        for wanted in asked(expression):
            there = [set(sample.labels) for sample in shown if sample.name == wanted.series]
            if wanted.series == CERTIFICATE_ENDS.name:
                assert not there, "Redis of `tj up` speaks no TLS"
                continue
            asked_of_it = wanted.labels - OF_THE_TARGET
            assert all(asked_of_it <= labels for labels in there), f"{where}: {wanted.series}: {there[0]}"


def test_doctor_finds_the_stack_in_order_and_its_settings_by_its_kubeconfig(stack: LocalStack) -> None:
    told: dict[str, Any] = {}

    def in_order() -> bool:
        """Beat's first resync is due some seconds after its start, and a busy worker may not answer within a second."""
        done = stack.tj("doctor", "-o", "json")
        told.update(json.loads(done.stdout), code=done.returncode, output=done.stdout)
        return not wrong() and any(check["detail"].startswith("2 answer") for check in told["checks"])

    def wrong() -> list[dict[str, Any]]:
        return [check for check in told["checks"] if check["state"] != "ok"]

    until("everything is in order", in_order, context=lambda: json.dumps(wrong(), indent=1))
    assert (told["code"], told["ok"]) == (0, True)
    found = {check["name"]: check["detail"] for check in told["checks"]}
    assert found["workers"].startswith("2 answer: worker1@")
    sources = {setting["variable"]: setting["source"] for setting in told["settings"]}
    assert sources["TJ_REDIS_URL"] == sources["TJ_RESYNC_SECONDS"] == "local stack"
    assert not re.search(r"redis://[\w-]*:[^*]", told["output"]), "no password"


def test_others_on_the_machine_get_into_nothing(stack: LocalStack) -> None:
    for path in (stack.paths.kubeconfig, stack.paths.environment, stack.paths.redis_config):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    server = yaml.safe_load(stack.paths.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
    assert server.startswith("https://127.0.0.1:")
    refused = stack.kubectl("--token=guessed", "get", "pods", check=False)
    assert "Unauthorized" in refused


@pytest.mark.parametrize(
    "victim",
    [
        "worker1",
        "watcher",
        pytest.param("redis", marks=pytest.mark.long),
        pytest.param("localcluster", marks=pytest.mark.long),
    ],
)
def test_a_killed_process_starts_again_and_the_job_goes_on(
    victim: str, stack: LocalStack, steady: tuple[str, Path]
) -> None:
    job, _ = steady
    before = stack.running_uids(job)
    assert len(before) == 2, explain(stack, job)
    survivor = stack.pod_process(job, "trainer", 0)
    assert survivor is not None

    stack.kill_service(victim)
    trainer = stack.pod_process(job, "trainer", 1)
    assert trainer is not None, "the pods outlive what has started them"
    processes.send(trainer, signal.SIGKILL)

    def replaced() -> bool:
        now = stack.running_uids(job)
        return len(now) == 2 and now["steady-trainer-1"] != before["steady-trainer-1"]

    until(f"the trainer is replaced after the {victim} was killed", replaced, context=lambda: explain(stack, job))
    assert stack.running_uids(job)["steady-trainer-0"] == before["steady-trainer-0"]
    assert survivor.is_running(), "a pod that has nothing to do with it is not touched"


def test_both_workers_killed_at_once_lose_nothing(stack: LocalStack, steady: tuple[str, Path]) -> None:
    job, _ = steady
    before = stack.running_uids(job)
    for worker in ("worker1", "worker2"):
        processes.send(stack.service(worker), signal.SIGKILL)
    trainer = stack.pod_process(job, "trainer", 0)
    assert trainer is not None
    processes.send(trainer, signal.SIGKILL)

    def replaced() -> bool:
        return stack.running_uids(job).get("steady-trainer-0") not in (None, before["steady-trainer-0"])

    until("the trainer is replaced", replaced, context=lambda: explain(stack, job))


def test_a_second_tj_up_in_the_same_folder_says_who_runs_there(stack: LocalStack) -> None:
    second = stack.tj("up", "--plain", "--state-dir", str(stack.paths.root))
    assert second.returncode == 1
    assert f"a stack already runs in {stack.paths.root} (pid {stack.process.pid})" in second.stderr


@pytest.mark.long  # `make test` plays test_supervisor.py's Ctrl-C, and the kill -9 below
def test_ctrl_c_leaves_nothing_and_the_next_start_goes_on_with_the_job(
    stack: LocalStack, steady: tuple[str, Path]
) -> None:
    job, finish = steady
    assert stack.pod_process(job, "trainer", 0) is not None
    stack.process.send_signal(signal.SIGINT)
    assert stack.wait_stopped() == 130
    assert stack.left() == [], stack.output

    stack.start()
    until("the job runs again", lambda: len(stack.running_uids(job)) == 2, context=lambda: explain(stack, job))
    finish.touch()
    until("it succeeds", lambda: stack.status(job).get("phase") == "Succeed", context=lambda: explain(stack, job))


def test_kill_9_of_tj_up_leaves_nothing_pods_included(stack: LocalStack, tmp_path: Path) -> None:
    stack.kubectl("apply", "-f", "-", stdin=manifest("orphans", tmp_path / "never"))
    until("it runs", lambda: len(stack.running_uids("orphans")) == 2, context=lambda: explain(stack, "orphans"))
    assert stack.pod_process("orphans", "trainer", 0) is not None
    stack.process.kill()
    stack.process.wait()
    until("nothing is left", lambda: stack.left() == [], context=lambda: f"{stack.left()}")
