"""What the projection keeps of changes, what it queues, and what a view has seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import JOB, A, B, C, Drive, a_job, a_pod, drain
from tests.integration.store.worlds import World
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.resources import BATCH_JOBS, PODS, SERVICES
from tjworker.store.work_queue import OnNews


def whole(d: Drive) -> tuple[bool, bool]:
    """(everything is in, all nodes are)"""
    cluster = d.projection.cluster()
    return cluster.synced, cluster.nodes_whole


PROJECTION = {
    "what was applied is in the view": Case(
        lambda d: [d.job(5), d.pod(6), d.view().job, d.pods(), d.view().synced],
        [[A], [], b'{"rv":5}', {"a-0": b'{"pod":6}'}, True],
    ),
    "an unknown job is an empty view": Case(
        lambda d: [d.view().job, d.view().children, d.view().stale], [None, {}, False]
    ),
    "records are bytes and come back as they were": Case(
        lambda d: [d.job(5, record=b'{"a b":" \xc3\xa4\\n\x00"}'), d.view().job], [[A], b'{"a b":" \xc3\xa4\\n\x00"}']
    ),
    "an object without a version is news the first time": Case(
        lambda d: [d.job(0), d.pod(0), drain(d), d.pod(0), sorted(d.pods())], [[A], [], None, [], ["a-0"]]
    ),
    "a new job queues its key": Case(lambda d: [d.job(5), d.take()], [[A], True]),
    "several changes of one job queue its key once": Case(
        lambda d: [d.apply(a_job(5), a_pod(6), a_pod(7, name="a-1"), a_job(8))], [[A]]
    ),
    "changes of several jobs queue each": Case(lambda d: [d.apply(a_job(5, B), a_job(6, A))], [[B, A]]),
    "a thousand changes in one call are all applied": Case(
        lambda d: [d.apply(a_job(1), *(a_pod(i, name=f"a-{i}") for i in range(2, 1001))), len(d.pods())], [[A], 999]
    ),
    "freeing deletes, and older news of what is gone is dropped": Case(
        lambda d: [
            drain(d, d.job(5), d.pod(6)),
            d.projection.free(1, [replace(a_pod(7), record=None), replace(a_job(8, B), record=None)]),
            d.pods(),
            d.pod(6),
            d.job(7, B),
            d.view(B).job,
        ],
        [None, [A], {}, [], [], None],
    ),
    "freeing writes what is no longer than before, and nothing else": Case(
        lambda d: [
            drain(d, d.job(5, record=bytes(range(60, 180))), d.pod(6)),
            d.projection.free(
                1, [a_job(7), a_job(8, B), a_pod(9, name="a-1"), a_pod(10, record=bytes(range(60, 180)))]
            ),
            d.view().job,
            d.pods(),
            d.view(B).job,
        ],
        [None, [A], b'{"rv":7}', {"a-0": b'{"pod":6}'}, None],
    ),
    "the same change again is no news": Case(lambda d: [drain(d, d.job(5)), d.job(5), d.queued()], [None, [], 0]),
    "the same version of a job with another generation or UID is news": Case(
        lambda d: [
            drain(d, d.apply(replace(a_job(5, uid="u1"), generation=1))),
            d.apply(replace(a_job(5, uid="u1"), generation=2)),
            drain(d),
            d.apply(replace(a_job(5, uid="u2"), generation=2)),
        ],
        [None, [A], None, [A]],
    ),
    "the same version with another record is news": Case(
        lambda d: [drain(d, d.job(5)), d.job(5, record=b"{}"), d.view().job], [None, [A], b"{}"]
    ),
    "older news of a job is dropped": Case(
        lambda d: [drain(d, d.job(5)), d.job(4), d.view().job], [None, [], b'{"rv":5}']
    ),
    "older news of a child is dropped": Case(
        lambda d: [d.job(5), drain(d, d.pod(7)), d.pod(6), d.pods()], [[A], None, [], {"a-0": b'{"pod":7}'}]
    ),
    "an older version of one child does not hide another child": Case(
        lambda d: [d.job(5), d.pod(9), drain(d), d.pod(6, name="a-1"), sorted(d.pods())],
        [[A], [], None, [A], ["a-0", "a-1"]],
    ),
    "a child that is deleted is gone, and that is news": Case(
        lambda d: [d.job(5), drain(d, d.pod(6)), d.no_pod(7), d.pods()], [[A], None, [A], {}]
    ),
    "an older deletion of a child that is there is dropped": Case(
        lambda d: [d.job(5), drain(d, d.pod(7)), d.no_pod(6), d.pods()], [[A], None, [], {"a-0": b'{"pod":7}'}]
    ),
    "a deleted child does not come back by older news": Case(
        lambda d: [d.job(5), d.pod(6), d.no_pod(8), drain(d), d.pod(7), d.pods()], [[A], [], [], None, [], {}]
    ),
    "a deletion told twice is news once": Case(
        lambda d: [d.job(5), d.pod(6), drain(d), d.no_pod(8), drain(d), d.no_pod(8)], [[A], [], None, [A], None, []]
    ),
    "a child made again under its name is news": Case(
        lambda d: [d.job(5), d.pod(6), d.no_pod(8), drain(d), d.pod(9), d.pods()],
        [[A], [], [], None, [A], {"a-0": b'{"pod":9}'}],
    ),
    "a child that comes before its job waits for it": Case(
        lambda d: [d.pod(4), d.queued(), d.job(5), d.pods()], [[], 0, [A], {"a-0": b'{"pod":4}'}]
    ),
    "a finished job keeps its record and drops its children": Case(
        lambda d: [d.job(5), d.pod(6), d.job(7, finished=True), d.view().job, d.view().children],
        [[A], [], [], b'{"rv":7}', {}],
    ),
    "a job that finishes queues nothing": Case(
        lambda d: [drain(d, d.job(5)), d.job(7, finished=True), d.queued(), d.stats().unfinished], [None, [], 0, 0]
    ),
    "later events of a finished job's children queue nothing and store nothing": Case(
        lambda d: [drain(d, d.job(5)), d.job(7, finished=True), d.pod(8), d.no_pod(9), d.queued(), d.view().children],
        [None, [], [], [], 0, {}],
    ),
    "nor does what says that it is of this very job": Case(
        lambda d: [d.job(7, finished=True, uid="u1"), d.pod(8, job_uid="u1"), d.pods()], [[], [], {}]
    ),
    "a child that comes before the news that its job was made again under a finished one's name is there": Case(
        lambda d: [d.job(5, finished=True, uid="u1"), d.pod(9, job_uid="u2"), d.queued(), d.job(8), sorted(d.pods())],
        [[], [], 0, [A], ["a-0"]],
    ),
    "and is gone again, should it have been deleted by then": Case(
        lambda d: [
            d.job(5, finished=True, uid="u1"),
            d.pod(9, job_uid="u2"),
            d.no_pod(10),
            d.job(8),
            d.pods(),
            d.pod(9, job_uid="u2"),
            d.pods(),
        ],
        [[], [], [], [A], {}, [], {}],
    ),
    "and goes with it, should it have finished by then": Case(
        lambda d: [
            d.job(5, finished=True, uid="u1"),
            d.pod(9, job_uid="u2"),
            d.job(10, finished=True),
            d.view().job,
            d.pods(),
        ],
        [[], [], [], b'{"rv":10}', {}],
    ),
    "a job that is already finished when it is first seen queues nothing": Case(
        lambda d: [d.job(7, finished=True), d.queued(), d.view().job], [[], 0, b'{"rv":7}']
    ),
    "a finished job that changes stays finished and queues nothing": Case(
        lambda d: [d.job(7, finished=True), d.job(9, finished=True), d.queued(), d.view().job], [[], [], 0, b'{"rv":9}']
    ),
    "a finished job that asked to be looked at later is": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish(next_pass=OnNews(60)),
            d.job(7, finished=True),
            d.wait(61),
            d.due(),
            d.take(),
        ],
        [[A], True, False, [], None, [A], True],
    ),
    "a job that is deleted is gone, with nothing left to do": Case(
        lambda d: [d.job(5), d.no_job(6), d.view().job, d.queued(), d.take(), d.stats().unfinished],
        [[A], [], None, 0, False, 0],
    ),
    "a deleted job takes its delay and its failures with it": Case(
        lambda d: [d.job(5), d.take(), d.fail() > 0, d.no_job(6), d.stats().delayed, d.stats().failing],
        [[A], True, True, [], 0, 0],
    ),
    "a deleted job does not come back by older news": Case(
        lambda d: [d.job(5), d.no_job(7), d.job(6), d.view().job, d.queued()], [[A], [], [], None, 0]
    ),
    "children of a deleted job stay known until they go, and queue nothing": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.no_job(7),
            d.pod(8),
            list(d.projection.known_keys()),
            d.no_pod(9),
            list(d.projection.known_keys()),
        ],
        [[A], [], [], [], [A], [], []],
    ),
    "a job deleted and created again is queued": Case(
        lambda d: [drain(d, d.job(5)), d.no_job(6), d.job(8), d.take(), d.view().job],
        [None, [], [A], True, b'{"rv":8}'],
    ),
    "a finished job deleted and created again is queued": Case(
        lambda d: [d.job(5, finished=True), d.no_job(6), d.job(8), d.stats().unfinished], [[], [], [A], 1]
    ),
    "a finished job whose deletion was missed is queued when it is created again": Case(
        lambda d: [d.job(5, finished=True), d.job(8), d.pod(9), sorted(d.pods())], [[], [A], [], ["a-0"]]
    ),
    "children of the first job count for the second until they are gone": Case(
        lambda d: [d.job(5), d.pod(6), d.no_job(7), d.job(8), drain(d), sorted(d.pods()), d.no_pod(9), d.pods()],
        [[A], [], [], [A], None, ["a-0"], [A], {}],
    ),
    "the deletion of a child that the projection had dropped is still news": Case(
        lambda d: [d.pod(4), d.job(5, finished=True), drain(d, d.job(8)), d.no_pod(9)], [[], [], None, [A]]
    ),
    "keys with a job or with children are known": Case(
        lambda d: [d.job(5, A), d.pod(6, B), d.job(7, C, finished=True), list(d.projection.known_keys())],
        [[A], [], [], [A, B, C]],
    ),
    "children are known by resource": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.pod(7, C, "c-0"),
            list(d.projection.known_children([A, B, C], PODS)),
            list(d.projection.known_children([A, B, C], SERVICES)),
            list(d.projection.known_children([A], PODS)),
        ],
        [[A], [], [], [(A, "a-0"), (C, "c-0")], [], [(A, "a-0")]],
    ),
    "nodes come and go and queue nothing": Case(
        lambda d: [
            d.projection.apply_nodes(1, {"n1": b"1", "n2": b"2"}),
            d.projection.apply_nodes(1, {"n1": None}),
            dict(d.projection.nodes(["n1", "n2"])),
            list(d.projection.known_nodes()),
            dict(d.projection.view(A, ["n2", "n9"]).nodes),
            d.queued(),
        ],
        [None, None, {"n2": b"2"}, ["n2"], {"n2": b"2"}, 0],
    ),
    "requests on nodes come and go and queue nothing": Case(
        lambda d: [
            d.projection.apply_node_requests(1, {"n1": b"1", "n2": b"2", "-": b"3"}),
            d.projection.apply_node_requests(1, {"n1": None, "n2": b"4"}),
            dict((c := d.projection.cluster()).node_requests),
            c.synced,
            d.queued(),
        ],
        [None, None, {"n2": b"4", "-": b"3"}, True, 0],
    ),
    "all requests at once leave none of an earlier writer's": Case(
        lambda d: [
            d.projection.apply_node_requests(1, {"n1": b"1"}),
            d.projection.apply_node_requests(1, {"n2": b"2"}, whole=True),
            dict(d.projection.cluster().node_requests),
            d.projection.apply_node_requests(1, {}, whole=True),
            dict(d.projection.cluster().node_requests),
        ],
        [None, None, {"n2": b"2"}, None, {}],
    ),
    "more node requests than one call of a script takes": Case(
        lambda d: [
            d.projection.apply_node_requests(1, {"old": b"1"}),
            d.projection.apply_node_requests(1, {f"n{i}": b"%d" % i for i in range(600)}, whole=True),
            (requests := d.projection.cluster().node_requests) and len(requests),
            requests["n599"],
        ],
        [None, None, 600, b"599"],
    ),
    "the cluster is its nodes, with their requests, once everything has been seen": Case(
        lambda d: [
            d.projection.lead(1),
            whole(d),
            d.projection.apply_nodes(1, {"n": b"1"}),
            d.projection.mark_synced(1),
            whole(d),
            dict((c := d.projection.cluster()).nodes),
            dict(c.node_requests),
        ],
        [None, (False, False), None, None, (True, True), {"n": b"1"}, {}],
        lead=False,
    ),
    "all nodes are known while jobs are still being listed, and no more once Redis is empty": Case(
        lambda d: [
            d.projection.lead(1),
            d.projection.apply_nodes(1, {"n": b"1"}),
            d.projection.mark_children(1),
            whole(d),
            d.flush(),
            whole(d),
        ],
        [None, None, None, (False, True), None, (False, False)],
        lead=False,
    ),
    "unfinished jobs are read with their versions": Case(
        lambda d: [
            d.job(5),
            d.pod(6, B),
            d.job(7, C, finished=True),
            d.job(8, B, record=b"a b c"),
            d.projection.unfinished(),
        ],
        [[A], [], [], [B], {A: (5, b'{"rv":5}'), B: (8, b"a b c")}],
    ),
    "children of several jobs, of some resources": Case(
        lambda d: [
            d.job(5),
            d.pod(6, name="a-1"),
            d.pod(7, name="a-0", record=b"a b"),
            d.pod(8, C, "c-0"),
            d.apply(replace(a_pod(9), resource=SERVICES)),
            d.apply(replace(a_pod(10), resource=BATCH_JOBS, name="a-jobs")),
            {
                k: {of: dict(records) for of, records in v.items()}
                for k, v in d.projection.children([A, B, C], (PODS, BATCH_JOBS)).items()
            },
        ],
        [
            [A],
            [],
            [],
            [],
            [],
            [],
            {
                A: {PODS: {"a-0": b"a b", "a-1": b'{"pod":6}'}, BATCH_JOBS: {"a-jobs": b'{"pod":10}'}},
                B: {PODS: {}, BATCH_JOBS: {}},
                C: {PODS: {"c-0": b'{"pod":8}'}, BATCH_JOBS: {}},
            },
        ],
    ),
}


SEEN = {
    "an event moves what has been seen of its resource": Case(
        lambda d: [d.job(5), d.pod(7), d.view().seen], [[A], [], {AITRAININGJOBS: 5, PODS: 7}]
    ),
    "a deletion moves it too": Case(lambda d: [d.job(5), d.pod(7), d.no_pod(9), d.view().seen[PODS]], [[A], [], [], 9]),
    "an older child does not move it back": Case(
        lambda d: [d.job(5), d.pod(9), d.pod(6, name="a-1"), d.view().seen[PODS]], [[A], [], [], 9]
    ),
    "a bookmark moves it for every job": Case(
        lambda d: [d.job(5), d.pod(7), d.progress(pods=20), d.view().seen[PODS], d.view(B).seen[PODS]],
        [[A], [], [], 20, 20],
    ),
    "progress never goes back": Case(
        lambda d: [d.progress(pods=20), d.progress(pods=10), d.view().seen[PODS]], [[], [], 20]
    ),
    "a bookmark of one namespace counts for its jobs alone": Case(
        lambda d: [d.progress(pods__default=20), d.view(A).seen.get(PODS), d.view(C).seen.get(PODS)], [[], 20, None]
    ),
    "a view that has seen less than an own write is stale": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 9)), d.view().min_observed, d.view().stale],
        [[A], True, False, {PODS: 9}, True],
    ),
    "it is stale no more once the watch has shown the write": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 9)), d.pod(9), d.view().stale], [[A], True, False, [], False]
    ),
    "nor when a bookmark has passed it": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 9)), d.progress(pods=12), d.view().stale],
        [[A], True, False, [], False],
    ),
    "the job's own write is seen by the job's own event": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.view().stale, d.job(10), d.view().stale],
        [[A], True, False, True, [], False],
    ),
    "a minimum observed version never goes down": Case(
        lambda d: [d.job(5), d.take(), d.min_observed((PODS, 9)), d.finish((PODS, 8)), d.view().min_observed],
        [[A], True, None, False, {PODS: 9}],
    ),
    "a minimum observed version that is never reached lapses after five minutes": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 9)), d.wait(301), d.view().min_observed],
        [[A], True, False, None, {}],
    ),
    "a minimum observed version raised in the middle of a pass counts at once": Case(
        lambda d: [d.job(5), d.take(), d.min_observed((PODS, 9)), d.view().stale], [[A], True, None, True]
    ),
}


CASES = named(projection=PROJECTION, seen=SEEN)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
