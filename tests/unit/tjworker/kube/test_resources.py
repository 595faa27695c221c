"""The table of resources: complete for what is projected, and nothing in it that the operator must not touch."""

from __future__ import annotations

from tests.support.kinds import AITRAININGJOBS
from tjworker.api.kinds import KINDS
from tjworker.api.observed import RECORD_TYPES
from tjworker.api.resources import ALL_POD_GROUPS, LEASES, NODES, PODS, REPLICASETS
from tjworker.kube.rbac import rules
from tjworker.kube.resources import RESOURCES, needed, watched
from tjworker.reconcile.gangs import GANGS

POD_GROUPS = tuple(RESOURCES[name] for name in ALL_POD_GROUPS)


def test_every_watched_resource_is_a_job_or_has_a_record() -> None:
    with_gangs = {row.name for gang in ("none", *GANGS) for row in watched(KINDS, gang) if not row.is_job}
    assert with_gangs == set(RECORD_TYPES)
    assert {row.name for row in watched(KINDS) if not row.is_job} == set(RECORD_TYPES) - set(ALL_POD_GROUPS)


def test_only_the_pod_groups_of_the_chosen_scheduler_are_watched() -> None:
    chosen = {gang: [row.name for row in watched(KINDS, gang) if row.name in ALL_POD_GROUPS] for gang in GANGS}
    assert chosen == {name: [gang.resource] for name, gang in GANGS.items()}
    for name, gang in GANGS.items():  # what `tj doctor` asks for
        assert {row.name for row in needed(KINDS, name)} - {row.name for row in needed(KINDS)} == {gang.resource}
    for gang in GANGS.values():
        assert (RESOURCES[gang.resource].api_version, RESOURCES[gang.resource].kind) == (gang.api_version, "PodGroup")
        assert ("patch" in RESOURCES[gang.resource].verbs["worker"]) == (gang.resize is not None)


def test_every_job_kind_has_its_row() -> None:
    assert {row.name for row in watched(KINDS) if row.is_job} == KINDS.keys()
    assert RESOURCES[AITRAININGJOBS].api_version == KINDS[AITRAININGJOBS].api_versions[0]


def test_what_is_watched_may_be_listed_and_watched_by_the_watcher() -> None:
    for row in watched(KINDS):
        assert {"list", "watch"} <= set(row.verbs["watcher"]), row.name


def test_no_secret_is_read_and_no_wildcards() -> None:
    for row in RESOURCES.values():
        verbs = {verb for verbs in row.verbs.values() for verb in verbs}
        assert not {row.plural, row.group, *verbs} & {"*"}
        assert row.plural != "secrets" or (verbs == {"create"} and not row.watched and row.needed_by)


def test_resources_of_one_plural_live_side_by_side() -> None:
    assert {RESOURCES[row.name].path("team", "a") for row in POD_GROUPS} == {
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/a",
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups/a",
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/team/podgroups/a",
    }
    allowed = [(rule["apiGroups"], rule["resources"]) for rule in rules("watcher", POD_GROUPS)]
    assert allowed == [([row.group], ["podgroups"]) for row in POD_GROUPS]


def test_paths() -> None:
    assert RESOURCES[PODS].path() == "/api/v1/pods"
    assert RESOURCES[LEASES].path("kube-system", "x") == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
    assert RESOURCES[NODES].path("ignored", "n") == "/api/v1/nodes/n"
    assert RESOURCES[REPLICASETS].path("a", "b", "scale") == "/apis/apps/v1/namespaces/a/replicasets/b/scale"
