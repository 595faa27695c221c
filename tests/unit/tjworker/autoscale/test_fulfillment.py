"""The fast form gives the plan of the naive loop, for any jobs and any cluster; and what every plan keeps to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.autoscaling import pose_jobs, scale_one_by_one
from tests.support.tiers import examples
from tjworker.autoscale import ClusterResource, ElasticJob, Nodes, elastic, scale_all_jobs_dry_run
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.policies import fulfillment

CPU, MEMORY = st.sampled_from([0, 100, 250, 500, 700, 1000, 1100, 3000]), st.sampled_from([0, 10, 90, 100, 400])
NODES = tuple(f"node-{i}" for i in range(5))


@st.composite
def an_elastic_job(draw: st.DrawFn, name: str) -> ElasticJob:
    least = draw(st.integers(0, 4))
    now = draw(st.integers(0, 12))
    return ElasticJob(
        name,
        least,
        draw(st.integers(0, 14)),
        now,
        draw(CPU),
        draw(MEMORY),
        draw(st.sampled_from([0, 0, 0, 1, 2])),
        draw(st.sampled_from([(), (("pods", 1),), (("amd.com/gpu", 1), ("pods", 1))])),
        tuple(draw(st.lists(st.sampled_from([*NODES, "", "gone"]), max_size=now))),
        draw(st.none() | st.integers(0, 14)),
        draw(st.none() | st.integers(0, 14)),
    )


@st.composite
def a_cluster(draw: st.DrawFn) -> ClusterResource:
    names = NODES[: draw(st.integers(0, len(NODES)))]
    idle = {name: draw(st.integers(-500, 6000)) for name in names}
    free = {name: draw(st.integers(-50, 1500)) for name in names}
    gpus = {name: draw(st.integers(-1, 4)) for name in names} if draw(st.booleans()) else {}
    others = {
        kind: {name: draw(st.integers(0, 5)) for name in names if draw(st.booleans())}
        for kind in ("pods", "amd.com/gpu")
    }
    cpus, memory, gpu = draw(st.integers(0, 30_000)), draw(st.integers(0, 6000)), draw(st.integers(0, 12))
    return ClusterResource(
        len(names),
        draw(st.integers(0, gpu + 4)),
        draw(st.integers(0, gpu + 4)),
        gpu,
        draw(st.integers(0, cpus + 9000)),
        0,
        cpus,
        draw(st.integers(0, memory + 500)),
        0,
        memory,
        Nodes(idle, free, gpus, others),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[ElasticJob], ClusterResource, float]:
    jobs = [draw(an_elastic_job(f"job-{i}")) for i in range(draw(st.integers(0, 7)))]
    return jobs, draw(a_cluster()), draw(st.sampled_from([0.0, 0.5, 0.97, 1.0]))


@examples(120)
@given(problems())
def test_the_fast_form_plans_what_the_naive_loop_plans(
    problem: tuple[list[ElasticJob], ClusterResource, float],
) -> None:
    jobs, resource, load = problem
    before = resource.copy()
    plan = scale_all_jobs_dry_run(jobs, resource, load)
    assert plan == scale_one_by_one(jobs, resource, load)
    assert resource == before
    assert plan.keys() == {job.name for job in jobs if elastic(job)}


@examples(80)
@given(problems())
def test_a_plan_stays_within_bounds_and_grows_into_room_that_there_is(
    problem: tuple[list[ElasticJob], ClusterResource, float],
) -> None:
    jobs, resource, load = problem
    plan = scale_all_jobs_dry_run(jobs, resource, load)
    by_name = {job.name: job for job in jobs}
    for name, step in plan.items():
        job = by_name[name]
        planned = job.parallelism + step
        assert step <= 0 or planned <= job.max_instance
        assert step <= 0 or job.ceiling is None or planned <= job.ceiling
        assert step >= 0 or planned >= job.lowest or planned == job.max_instance
        assert planned <= max(job.max_instance, 0)
    cpu = resource.cpu_request_milli + sum(by_name[n].cpu_request_milli * step for n, step in plan.items())
    if any(step > 0 and by_name[n].cpu_request_milli for n, step in plan.items()):
        assert cpu <= int(resource.cpu_total_milli * load), "who grew did not ask for more than there is"
    assert scale_all_jobs_dry_run(jobs, resource, load) == plan, "the same plan again"


@examples(100)
@given(problems())
def test_its_plan_is_never_rejected_whatever_the_projection_says(
    problem: tuple[list[ElasticJob], ClusterResource, float],
) -> None:
    """Sums and nodes need not agree, nodes may hold more than they have, pods may stand on nodes that are gone. And
    apart from replicas that would have no node it is the plan of the seeds' loop."""
    jobs, resource, load = problem
    posed = pose_jobs(jobs, resource, load)
    plan = fulfillment.plan(posed)
    check_plan(posed, plan)
    naive = scale_one_by_one(jobs, resource, load)
    for role in posed.roles:
        step = plan.targets.get(role.id, role.elastic.parallelism) - role.elastic.parallelism
        of_the_loop = naive.get(role.elastic.name, 0)
        assert step == of_the_loop or 0 <= step < of_the_loop
    if not any(step < 0 for step in naive.values()):
        assert {role.id: plan.targets[role.id] for role in posed.roles if elastic(role.elastic)} == {
            role.id: role.elastic.parallelism + naive[role.elastic.name]
            for role in posed.roles
            if elastic(role.elastic)
        }
