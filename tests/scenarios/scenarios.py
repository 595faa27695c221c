"""The scenarios of jobs: what the product promises, told once, and played in each world (see `tests.scenarios.driver`).

Seconds are small, as one of the worlds waits for them. What hangs on exact times, on lost tasks or on a wiped store is
in `test_lives`, which has the virtual world to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.scenarios.driver import Driver, Json
from tests.scenarios.kubelet_scenarios import KUBELET_SCENARIOS
from tests.scenarios.trainingjob_scenarios import TRAININGJOB_SCENARIOS
from tests.scenarios.world import job, play, role

Scenario = Callable[[Driver], None]


def _running(world: Driver, name: str = "digits") -> None:
    world.until(f"{name} runs", lambda: world.phase(name) == "Running")


def _ends(world: Driver, phase: str, *, within_seconds: float = 60) -> None:
    world.until(f"the job ends as {phase}", lambda: world.phase() == phase, within_seconds=within_seconds)


def _end_pods(world: Driver) -> None:
    for name in world.pods():
        world.end_pod(name)


def _gone(world: Driver) -> None:
    world.until("pods and services are gone", lambda: (world.pods(), world.services()) == ({}, []))


def runs_succeeds_and_is_cleaned_up(world: Driver) -> None:
    world.apply(job({"trainer": role(2)}))
    _running(world)
    assert sorted(world.pods()) == world.services() == ["digits-trainer-0", "digits-trainer-1"]
    _end_pods(world)
    _ends(world, "Succeed")
    assert (world.pods(), world.services()) == ({}, [])
    assert world.condition("Succeeded")["status"] == "True"
    assert world.condition("Running")["status"] == "False"
    world.until("each change of phase is told once", lambda: world.events() == {"Running": 1, "Succeed": 1})


def costs_little_more_than_the_floor(world: Driver) -> None:
    """Floor: a create a pod and service, a delete a pod and service, three status writes. And three more, where pods
    move together; where they move one after another, the status follows each of them."""
    world.apply(job({"trainer": role(4, annotations=play(run_seconds=5))}))
    _ends(world, "Succeed")
    world.quiet()
    requests = world.requests()
    assert requests.pop("update aitrainingjobs/status") <= world.most_status_writes(4)
    assert requests == {
        "create pods": 4,
        "create services": 4,
        "delete pods": 4,
        "delete services": 4,
        "create events": 2,
    }


def reads_nothing_from_the_api_server(world: Driver) -> None:
    world.apply(job({"trainer": role(3, annotations=play(run_seconds=5))}))
    _ends(world, "Succeed")
    world.quiet()
    asked = world.requests()
    reads = [r for r in asked if r.split()[0] in ("get", "list", "watch")]
    assert reads == [], f"of all that was asked: {dict(asked)}"


def a_failed_trainer_is_replaced(world: Driver) -> None:
    world.apply(job({"trainer": role(1, restartPolicy="ExitCode", restartScope="Pod"), "ps": role(1)}))
    _running(world)
    before = world.uids()
    first = before["digits-trainer-0"]
    world.end_pod("digits-trainer-0", 137)
    world.until("the trainer is another pod", lambda: world.uids().get("digits-trainer-0") not in (None, first))
    _running(world)
    assert world.uids()["digits-ps-0"] == before["digits-ps-0"]
    status = world.status()
    assert status["restartCounts"]["trainer"]["application"] == 1
    assert status["failures"][0]["exitCode"] == 137
    world.until("each change of phase is told", lambda: world.events() == {"Running": 2, "Restarting": 1})
    _end_pods(world)
    _ends(world, "Succeed")


def the_whole_job_restarts(world: Driver) -> None:
    world.apply(job({"trainer": role(1, restartPolicy="OnFailure", restartScope="All"), "ps": role(2)}))
    _running(world)
    before, services = world.uids(), world.services()
    world.end_pod("digits-trainer-0", 1)
    world.until(
        "every pod is another one",
        lambda: sorted(world.pods()) == sorted(before) and not set(world.uids().values()) & set(before.values()),
    )
    _running(world)
    assert {p["metadata"]["labels"]["restart-attempt"] for p in world.pods().values()} == {"1"}
    assert world.services() == services


def the_restart_limit_ends_the_job(world: Driver) -> None:
    broken = play(run_seconds=1, exit_code=3, log="loss is nan")
    world.apply(job({"trainer": role(1, annotations=broken, restartPolicy="OnFailure", restartLimit=2)}))
    _ends(world, "Failed")
    status = world.status()
    assert status["restartCounts"]["trainer"]["application"] == 2
    assert [f["exitCode"] for f in status["failures"]] == [3, 3, 3]
    assert "exited with code 3" in world.condition("Failed")["message"]
    assert "restartLimit 2 of role trainer is used up" in world.condition("Failed")["message"]
    assert world.pods() == {}


def scaling_keeps_the_trainers_that_run(world: Driver) -> None:
    world.apply(job({"ps": role(1), "trainer": role(2, minReplicas=1, maxReplicas=6, edlPolicy="Manual")}))
    _running(world)
    before = world.uids()
    world.scale("digits", 5)
    world.until("five trainers run", lambda: len(world.pods()) == 6 and world.phase() == "Running")
    assert {n: u for n, u in world.uids().items() if n in before} == before
    world.scale("digits", 1)
    world.until(
        "one trainer is left", lambda: sorted(world.pods()) == world.services() == ["digits-ps-0", "digits-trainer-0"]
    )
    _running(world)
    assert {n: u for n, u in before.items() if n in world.uids()} == world.uids()
    world.until("the status follows", lambda: world.status()["replicas"] == 1)
    status = world.status()
    assert [(r["from"], r["to"]) for r in status["scaleRecords"]] == [(5, 1), (2, 5)]
    assert status.get("restarts", 0) == 0


def a_deleted_pod_comes_back(world: Driver) -> None:
    world.apply(job({"trainer": role(2)}))
    _running(world)
    before = world.uids()
    world.delete_pod("digits-trainer-1")
    world.until(
        "there is a new one", lambda: world.uids().get("digits-trainer-1") not in (None, before["digits-trainer-1"])
    )
    _running(world)
    assert world.uids()["digits-trainer-0"] == before["digits-trainer-0"]
    assert world.status()["restartCounts"]["trainer"] == {"application": 0, "node": 0, "preemption": 0, "user": 1}


def _cleaned(policy: str, left: int) -> Scenario:
    def scenario(world: Driver) -> None:
        spec = {"trainer": role(1, annotations=play(run_seconds=3)), "ps": role(1, completePolicy="None")}
        world.apply(job(spec, cleanPodPolicy=policy))
        _ends(world, "Succeed")
        assert len(world.pods()) == left
        assert len(world.services()) == left

    return scenario


def deleting_a_job_takes_what_it_owns(world: Driver) -> None:
    world.apply(job({"trainer": role(3)}))
    _running(world)
    world.delete("digits")
    _gone(world)


def deleted_and_created_again_is_another_job(world: Driver) -> None:
    slow = play(terminate_seconds=4)
    world.apply(job({"trainer": role(2, annotations=slow)}))
    _running(world)
    before = set(world.uids().values())
    world.delete("digits")
    world.until("it is gone", lambda: world.jobs() == [])
    world.apply(job({"trainer": role(2, annotations=slow)}))
    world.until(
        "it runs with pods of its own", lambda: world.phase() == "Running" and not set(world.uids().values()) & before
    )
    status = world.status()
    assert (status.get("restarts", 0), status.get("failures", [])) == (0, [])


def no_room_is_told_in_the_schedulers_words(world: Driver) -> None:
    big = role(1)
    big["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9000"}}
    world.apply(job({"trainer": big}))
    world.until(
        "the scheduler's words stand in the condition",
        lambda: "0/3 nodes are available: 3 Insufficient cpu." in world.condition("Running").get("message", ""),
    )
    assert world.phase() == "Pending"


def an_image_that_cannot_be_pulled_is_named(world: Driver) -> None:
    world.apply(job({"trainer": role(1, annotations=play(waiting_reason="ImagePullBackOff"))}))
    world.until(
        "the reason stands in the condition",
        lambda: "cannot start container aitj-main: ImagePullBackOff" in world.condition("Running").get("message", ""),
    )
    assert world.phase() == "Creating"


def an_annotation_ends_a_job_from_outside(world: Driver) -> None:
    world.apply(job({"trainer": role(2)}))
    _running(world)
    world.patch_job("digits", {"metadata": {"annotations": {"Preempted": "a bigger job came"}}})
    _ends(world, "Preempted")
    assert world.condition("Failed")["message"] == "a bigger job came"
    assert world.pods() == {}


def a_time_limit_counts_from_the_first_running(world: Driver) -> None:
    world.apply(job({"trainer": role(1, annotations=play(start_seconds=6))}, timeLimit=4))
    _ends(world, "Timeout")
    assert world.pods() == {}
    world.until("it has run", lambda: world.events().get("Running") == 1)


def suspends_and_resumes(world: Driver) -> None:
    world.apply(job({"trainer": role(2)}, suspend=True))
    world.until("it is suspended", lambda: world.phase() == "Suspended")
    assert world.pods() == {}
    world.quiet()
    before = world.requests()
    world.stays("a suspended job causes no request", lambda: world.requests() == before, for_seconds=4)
    world.patch_job("digits", {"spec": {"suspend": False}})
    _running(world)
    world.patch_job("digits", {"spec": {"suspend": True}})
    world.until("it is suspended again", lambda: world.phase() == "Suspended")
    _gone(world)


def a_finished_job_costs_nothing(world: Driver) -> None:
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=2))}, cleanPodPolicy="None"))
    _ends(world, "Succeed")
    world.quiet()
    before = world.requests()
    world.delete_pod("digits-trainer-0")
    world.until("its pod is gone", lambda: world.pods() == {})
    world.stays("no request follows", lambda: world.requests() == before, for_seconds=5)


def the_ttl_deletes_a_finished_job(world: Driver) -> None:
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=2))}, runPolicy={"ttlSecondsAfterFinished": 15}))
    _ends(world, "Succeed")
    world.until("the job is gone", lambda: world.jobs() == [])


def a_refused_template_ends_the_job_with_the_api_servers_words(world: Driver) -> None:
    bad = role(1)
    bad["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    world.apply(job({"trainer": bad}))
    _ends(world, "Failed")
    assert world.condition("Failed")["reason"] == "InvalidSpec"
    assert "imagePullPolicy" in world.condition("Failed")["message"]
    _gone(world)


def a_refused_pod_leaves_the_others_alone(world: Driver) -> None:
    """Scaled up with a template that the API server does not take: the pods that run go on, and the job ends as they
    do. Mended, it goes up."""
    world.apply(job({"trainer": role(2), "ps": role(1, completePolicy="None", failPolicy="None")}))
    _running(world)
    before = world.uids()
    bad = role(3)
    bad["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": bad}}})
    world.until("the job says so", lambda: world.condition("Running").get("reason") == "FailedCreate")
    assert "imagePullPolicy" in world.condition("Running")["message"]
    assert world.uids() == before
    world.delete_pod("digits-ps-0")
    world.until(
        "another role's pod comes back", lambda: world.uids().get("digits-ps-0", "") not in ("", before["digits-ps-0"])
    )
    assert {name: uid for name, uid in world.uids().items() if "trainer" in name}.items() <= before.items()
    good = {"spec": {"replicaSpecs": {"trainer": role(3)}}}
    good["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    world.patch_job("digits", good)
    world.until("the third is there", lambda: "digits-trainer-2" in world.pods() and world.phase() == "Running")
    assert all(world.uids()[name] == uid for name, uid in before.items() if "trainer" in name)


def a_job_that_was_refused_begins_when_it_is_mended(world: Driver) -> None:
    bad = role(1, annotations=play(run_seconds=3))
    bad["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    world.apply(job({"trainer": bad}))
    _ends(world, "Failed")
    bad["template"]["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": bad}}})
    _ends(world, "Succeed")
    assert world.condition("Failed").get("status") != "True"
    assert world.condition("Succeeded")["status"] == "True"


def a_typo_in_a_container_is_refused_by_name(world: Driver) -> None:
    """The API server would drop the field without a word, and the container would run the image's own command."""
    bad = role(1)
    container = bad["template"]["spec"]["containers"][0]
    container["comand"] = container.pop("command")
    world.apply(job({"trainer": bad}))
    _ends(world, "Failed")
    assert world.condition("Failed")["reason"] == "InvalidSpec"
    assert 'unknown field "spec.containers[0].comand"' in world.condition("Failed")["message"]
    _gone(world)
    world.quiet()
    assert world.requests()["create pods"] == 1, "trying again cannot help"


def a_foreign_pod_is_not_touched(world: Driver) -> None:
    foreign: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "digits-trainer-0"},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    world.create_pod(foreign)
    uid = world.uids()["digits-trainer-0"]
    world.apply(job({"trainer": role(1)}))
    world.until("the job says so", lambda: world.condition("Running").get("reason") == "FailedCreate")
    assert world.uids() == {"digits-trainer-0": uid}
    assert (
        'Pod "digits-trainer-0" exists already and does not belong to this job' in world.condition("Running")["message"]
    )
    assert "waiting for a node" not in world.status()["message"], "it is not what is waited for"
    world.delete_pod("digits-trainer-0")
    world.until("it runs when the name is free", lambda: world.phase() == "Running", within_seconds=120)
    assert world.uids()["digits-trainer-0"] != uid


def two_jobs_share_a_namespace(world: Driver) -> None:
    world.apply(job({"trainer": role(1)}, name="a"))
    world.apply(job({"trainer": role(1)}, name="b"))
    _running(world, "a")
    _running(world, "b")
    kept = world.uids()["b-trainer-0"]
    world.delete("a")
    world.until("only the other's pod is left", lambda: world.uids() == {"b-trainer-0": kept})
    assert world.phase("b") == "Running"


def pods_without_ports_have_their_names(world: Driver) -> None:
    world.apply(job({"trainer": role(2, ports=())}))
    _running(world)
    assert sorted(world.pods()) == world.services() == ["digits-trainer-0", "digits-trainer-1"]
    _end_pods(world)
    _ends(world, "Succeed")
    assert (world.pods(), world.services()) == ({}, [])


SCENARIOS: Mapping[str, Scenario] = {
    "a job runs, succeeds and is cleaned up": runs_succeeds_and_is_cleaned_up,
    "pods without ports have services of their names, too": pods_without_ports_have_their_names,
    "a whole scenario costs at most three requests above the floor": costs_little_more_than_the_floor,
    "no reconcile of a common scenario reads from the API server": reads_nothing_from_the_api_server,
    "a failed trainer is replaced and the others stay": a_failed_trainer_is_replaced,
    "a restart of the whole job replaces every pod and keeps the services": the_whole_job_restarts,
    "the restart limit ends the job, with the failure in its message": the_restart_limit_ends_the_job,
    "scaling through the subresource keeps the trainers that run": scaling_keeps_the_trainers_that_run,
    "a user who deletes a pod gets a new one": a_deleted_pod_comes_back,
    "cleanPodPolicy All leaves no pod": _cleaned("All", 0),
    "cleanPodPolicy Running leaves those that have ended": _cleaned("Running", 1),
    "cleanPodPolicy None leaves all": _cleaned("None", 2),
    "deleting a job takes its pods and services with it": deleting_a_job_takes_what_it_owns,
    "a job deleted and created again under its name is another job": deleted_and_created_again_is_another_job,
    "a pod without room leaves the job Pending, with the scheduler's words": no_room_is_told_in_the_schedulers_words,
    "an image that cannot be pulled is named in the condition": an_image_that_cannot_be_pulled_is_named,
    "an annotation ends a job from outside": an_annotation_ends_a_job_from_outside,
    "a time limit counts from the first Running": a_time_limit_counts_from_the_first_running,
    "a suspended job costs nothing, resumes and is suspended again": suspends_and_resumes,
    "a finished job costs nothing, whatever its pods do": a_finished_job_costs_nothing,
    "a TTL deletes the finished job": the_ttl_deletes_a_finished_job,
    "a template that the API server refuses ends the job with its words": (
        a_refused_template_ends_the_job_with_the_api_servers_words
    ),
    "a pod that the API server refuses leaves the others of its job alone": a_refused_pod_leaves_the_others_alone,
    "a job that was refused begins when it is mended": a_job_that_was_refused_begins_when_it_is_mended,
    "a typo inside a container is refused by name": a_typo_in_a_container_is_refused_by_name,
    "a foreign pod of a wanted name is not touched, and the job says so": a_foreign_pod_is_not_touched,
    "two jobs share a namespace without meeting": two_jobs_share_a_namespace,
    **TRAININGJOB_SCENARIOS,
    **KUBELET_SCENARIOS,
}
