"""Gang scheduling on the local cluster, in virtual time. tests/e2e/control_plane/test_gang.py plays the same scenarios
on Kubernetes itself."""

from __future__ import annotations

import orjson
import pytest

from localcluster.kubelet.node import NodeConfig
from tests.scenarios.gang_scenarios import GANG_SCENARIOS, gang, placed, size, uid
from tests.scenarios.world import World, training_job
from tests.support.clocks import shared
from tests.support.pod_groups import POD_GROUP_CRDS, full_pod_group
from tjworker.controllers.orphans import OrphanCollector
from tjworker.kube.resources import RESOURCES
from tjworker.reconcile.gangs import GANGS
from tjworker.store.projection import ClusterView
from tjworker.telemetry.metrics import REGISTRY

NODES = [NodeConfig(f"node-{n}", cpu="8") for n in range(3)]


@pytest.mark.parametrize("scenario", GANG_SCENARIOS)
def test_a_scenario_of_gangs(scenario: str) -> None:
    GANG_SCENARIOS[scenario](World(nodes=NODES, gang_scheduler="kubernetes"))


def test_the_first_pod_of_a_gang_is_counted_with_its_pods_and_not_with_its_pod_group() -> None:
    name, labels = "tj_job_time_to_first_pod_seconds_count", {"kind": "AITrainingJob"}
    before = REGISTRY.get_sample_value(name, labels) or 0.0
    assert World(nodes=NODES, gang_scheduler="kubernetes").apply(gang(2)).run().pods()
    assert (REGISTRY.get_sample_value(name, labels) or 0.0) - before == 1


def world_with(scheduler: str) -> World:
    """The CRD is installed when the watcher starts."""

    class WithCrd(World):
        crds = (*World.crds, POD_GROUP_CRDS[scheduler])

    return WithCrd(nodes=NODES, gang_scheduler=scheduler)


@pytest.mark.parametrize("scheduler", POD_GROUP_CRDS)
def test_pod_groups_of_other_schedulers(scheduler: str) -> None:
    """The local scheduler keeps to them; their own are not run."""
    world = world_with(scheduler)
    world.apply(gang(4, "first", run_seconds=20)).apply(gang(4, "second")).run()
    assert sorted(placed(world, name) for name in ("first", "second")) == [0, 4]
    world.until("each has had its turn", lambda: placed(world, "second") == 4)
    resource = GANGS[scheduler].resource
    assert {name: group["spec"]["minMember"] for name, group in world.owners(resource).items()} == {"second": 4}
    world.patch_job("second", {"spec": {"replicaSpecs": {"trainer": {"replicas": 2}}}}).run()
    assert world.owners(resource)["second"]["spec"]["minMember"] == 2, "its number follows"
    world.cluster.client.delete(RESOURCES[resource].path("default", "second"))
    world.run()
    world.delete_pod("second-trainer-0").run().advance(5)
    assert (placed(world, "second"), list(world.owners(resource))) == (2, ["second"]), "it is made again"


def test_a_gang_whose_pods_stay_is_over_as_soon_as_its_group_is_on_its_way() -> None:
    """The group goes with the last of its pods, and nothing else of the job: no news would tell of its end."""
    world = World(nodes=NODES, gang_scheduler="kubernetes")
    job = gang(2)
    job["spec"] |= {"cleanPodPolicy": "None", "runPolicy": {"activeDeadlineSeconds": 20}}
    world.apply(job).run()
    world.advance(25)
    assert (world.phase(), len(world.pods())) == ("Failed", 2)


def test_a_server_that_waits_for_a_group_of_more_pods_than_there_are_runs_after_a_suspension() -> None:
    """A known limit (docs/gang.md), and the way out of it: the ReplicaSet's template cannot leave the group."""
    world = World(nodes=NODES, gang_scheduler="kubernetes")
    world.apply(training_job(least=3, most=6, fault_tolerant=True)).run().scale("digits", 1).run()
    assert world.phase() == "Running"
    (master,) = [name for name in world.pods() if "-master-" in name]
    world.delete_pod(master).run().advance(60)
    assert (world.phase(), placed(world, "digits")) == ("Restarting", 1)
    for suspend in (True, False):
        world.patch_job("digits", {"spec": {"suspend": suspend}}).run().advance(20)
    assert (world.phase(), placed(world, "digits")) == ("Running", 2)


@pytest.mark.parametrize(("whole", "events"), [(True, 1), (False, 0)], ids=["whole", "not whole"])
def test_whether_a_gang_that_waits_is_judged_by_a_list_of_nodes_that_is(whole: bool, events: int) -> None:
    """Whether jobs are still being listed has no part in it."""
    world = World(nodes=NODES, gang_scheduler="kubernetes")
    world.apply(gang(4, "first")).run()
    one = dict(list(world.store.projection.cluster().nodes.items())[:1])
    world.store.projection.cluster = lambda: ClusterView(one, {}, nodes_whole=whole)  # type: ignore[method-assign]
    world.apply(gang(4, "second")).run().advance(5)
    assert (placed(world, "first"), placed(world, "second")) == (4, 0)
    assert world.events().get("GangTooLarge", 0) == events


@pytest.mark.parametrize("scheduler", POD_GROUP_CRDS)
def test_their_crds_take_what_is_made(scheduler: str) -> None:
    world = world_with(scheduler)
    path = RESOURCES[GANGS[scheduler].resource].path("default")
    body = full_pod_group(scheduler)
    answer = world.cluster.request("POST", path, orjson.dumps(body), fieldValidation="Strict")
    assert answer.status == 201, answer.body
    assert orjson.loads(answer.body)["spec"] == body["spec"]


@pytest.mark.parametrize("scheduler", POD_GROUP_CRDS)
def test_without_the_pod_group_kind_nothing_is_made_and_the_job_says_so(scheduler: str) -> None:
    world = World(nodes=NODES, gang_scheduler=scheduler).apply(gang(2)).run()
    told = world.condition("Running")
    assert (told["reason"], world.pods(), world.services()) == ("FailedCreate", {}, [])
    assert f"TJ_GANG_SCHEDULER={scheduler} needs {GANGS[scheduler].needs}" in told["message"]
    world.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", POD_GROUP_CRDS[scheduler])
    world.until("it is installed, and the job runs", lambda: world.phase() == "Running", within_seconds=700)


def test_an_edl_job_is_a_gang_of_its_servers_and_its_fewest_trainers() -> None:
    world = World(nodes=NODES, gang_scheduler="kubernetes")
    world.apply(
        training_job(least=2, most=4, pservers=2, fault_tolerant=True, play={"trainer": {"run_seconds": 20}})
    ).run()
    assert size(world) == 5, "master, two servers, two trainers"
    assert {str(pod["spec"].get("schedulingGroup")) for pod in world.pods().values()} == {"{'podGroupName': 'digits'}"}
    world.until("it ends", lambda: world.phase() == "Succeed")
    assert world.owners(GANGS["kubernetes"].resource) == {}


@pytest.mark.parametrize("ending", ["lives", "ends, and keeps its pods"])
def test_the_orphan_collector_leaves_the_group_of_a_job_that_lives(ending: str) -> None:
    """For hours, and its runs have no failed item. At the end the job's own pass takes the group."""
    world = World(nodes=NODES, gang_scheduler="kubernetes")
    run_seconds = None if ending == "lives" else 3600.0
    world.apply(gang(4, run_seconds=run_seconds, spec={"cleanPodPolicy": "None"})).run()
    collector = OrphanCollector(world.store, world.api, world.settings, clock=shared(world.clock))
    made = uid(world)
    for _ in range(12):
        world.advance(600, step_seconds=300)
        assert collector.collect() == (0, 0)
        assert uid(world) == (made if world.phase() == "Running" else "")
    assert world.phase() == ("Running" if ending == "lives" else "Succeed")
    assert placed(world, "digits") == 4


def test_a_job_without_autoclean_keeps_its_group_at_its_end_and_the_orphan_collector_leaves_it() -> None:
    """Its ReplicaSets go on to make pods, which join it."""
    world = World(nodes=NODES, gang_scheduler="kubernetes", autoclean=False)
    world.apply(training_job(least=2, most=2, pservers=1, play={"trainer": {"run_seconds": 20}})).run()
    made = uid(world)
    world.until("it ends", lambda: world.phase() == "Succeed")
    world.advance(3600, step_seconds=300)
    collector = OrphanCollector(world.store, world.api, world.settings, clock=shared(world.clock))
    assert (collector.collect(), uid(world)) == ((0, 0), made)


@pytest.mark.parametrize("autoclean", [True, False])
def test_a_group_that_came_after_an_edl_jobs_end_goes_unless_that_end_took_nothing(autoclean: bool) -> None:
    """Its create was on the way while another worker carried the job to its end."""
    world = World(nodes=NODES, gang_scheduler="kubernetes", autoclean=autoclean)
    world.apply(training_job(least=2, most=2, pservers=1, play={"trainer": {"run_seconds": 20}})).run()
    late = world.owners(GANGS["kubernetes"].resource)["digits"]
    world.until("it ends", lambda: world.phase() == "Succeed")
    late["metadata"] = {name: late["metadata"][name] for name in ("labels", "ownerReferences")} | {"name": "late"}
    del late["status"]
    world.create(GANGS["kubernetes"].resource, late)
    collector = OrphanCollector(world.store, world.api, world.settings, clock=shared(lambda: world.clock() + 61))
    assert collector.collect() == (int(autoclean), 0)
    world.run()
    assert ("late" in world.owners(GANGS["kubernetes"].resource)) is not autoclean


def test_a_job_that_ran_before_gang_scheduling_was_switched_on_goes_on() -> None:
    """Its pods are in no group, and would keep one that wants them all waiting for ever."""
    world = World(nodes=NODES).apply(gang(4)).run()
    before = world.uids()
    world.settings = world.settings.model_copy(update={"gang_scheduler": "kubernetes"})
    world.worker = world.make_worker("worker-2")
    world.start_watcher()
    world.run().delete_pod("digits-trainer-0").run().advance(5)
    assert (world.phase(), placed(world, "digits")) == ("Running", 4)
    assert {name for name, uid in world.uids().items() if uid == before[name]} == set(before) - {"digits-trainer-0"}


def test_a_group_goes_with_its_job() -> None:
    """PodGroups are of a version that their group does not prefer; the garbage collector finds them all the same."""
    world = World(nodes=NODES, gang_scheduler="kubernetes").apply(gang(2)).run()
    assert list(world.owners(GANGS["kubernetes"].resource)) == ["digits"]
    world.delete("digits").run().advance(5)
    assert list(world.owners(GANGS["kubernetes"].resource)) == []
