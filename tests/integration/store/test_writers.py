"""Who may write the projection, its checkpoint, and its reset."""

from __future__ import annotations

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import A, B, a_job, drain, other, raised
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, JobKey
from tjworker.store.projection import Change, RecordPlace

WRITERS = {
    "no watcher may write before it leads": Case(lambda d: [raised(lambda: d.job(5))], ["Lost"], lead=False),
    "an older writer is fenced as soon as a newer one leads": Case(
        lambda d: [
            other(d).projection.lead(2),
            raised(lambda: d.job(5)),
            raised(lambda: d.projection.lead(1)),
            raised(lambda: d.projection.apply_nodes(1, {})),
            raised(lambda: d.projection.apply_node_requests(1, {})),
            raised(lambda: d.projection.mark_children(1)),
            raised(lambda: d.projection.mark_synced(1)),
        ],
        [None, "Fenced", "Fenced", "Fenced", "Fenced", "Fenced", "Fenced"],
    ),
    "the newer writer goes on with the projection as it stands": Case(
        lambda d: [
            drain(d, d.job(5)),
            (new := other(d).projection).lead(2),
            new.apply(2, [a_job(5)]),
            new.apply(2, [a_job(6)]),
            d.view().synced,
        ],
        [None, None, [], [A], True],
    ),
    "a writer that names jobs otherwise than the last one begins unsynced": Case(
        lambda d: [
            d.apply(
                Change(
                    JobKey("aitrainingjobs/default/a.b"), GroupResource("aitrainingjobs"), "a.b", 9, b"{}", is_job=True
                )
            ),
            d.projection.mark_synced(1, "red", "f1"),
            d.projection.lead(1, "f1"),
            d.view().synced,
            d.projection.lead(1, "f2"),
            d.view().synced,
            d.projection.checkpoint().synced,
        ],
        [[JobKey("aitrainingjobs/default/a.b")], None, None, True, None, False, False],
    ),
    "with the same names it goes on synced in another form": Case(
        lambda d: [d.job(5), d.projection.mark_synced(1, "red", "f1"), d.projection.lead(1, "f2"), d.view().synced],
        [[A], None, None, True],
    ),
    "a writer of another form takes the form away, and one of the same does not": Case(
        lambda d: [
            d.projection.mark_synced(1, "red", "f1"),
            d.projection.lead(1, "f1"),
            d.projection.checkpoint().form,
            d.projection.lead(1),
            d.projection.checkpoint().form,
            d.projection.lead(1, "f2"),
            d.projection.checkpoint().form,
        ],
        [None, None, "f1", None, "f1", None, ""],
    ),
    "a writer whose records have the same key leaves its name": Case(
        lambda d: [
            d.beneath.mark_synced(1, "red", "key:f1"),
            d.beneath.lead(1, "key:f2"),
            d.beneath.checkpoint().form,
            d.beneath.lead(1, "another:f2"),
            d.beneath.checkpoint().form,
        ],
        [None, None, "key:", None, ""],
    ),
    "a writer may lead again": Case(lambda d: [d.projection.lead(1), d.job(5)], [None, [A]]),
    "a view is synced once what belongs to jobs has been projected, and the cluster once everything has": Case(
        lambda d: [
            d.projection.lead(1),
            d.projection.mark_children(1),
            d.view().synced,
            d.projection.cluster().synced,
            d.projection.checkpoint().synced,
            d.projection.mark_synced(1),
            d.projection.cluster().synced,
        ],
        [None, None, True, False, False, None, True],
        lead=False,
    ),
    "what an earlier writer had listed of what belongs to jobs counts no more for the next": Case(
        lambda d: [d.projection.lead(1), d.projection.mark_children(1), d.projection.lead(2), d.view().synced],
        [None, None, None, False],
        lead=False,
    ),
    "unless it had everything": Case(
        lambda d: [
            d.projection.mark_children(1),
            d.projection.mark_synced(1),
            d.projection.lead(2),
            d.view().synced,
            d.projection.reset(2),
            d.view().synced,
        ],
        [None, None, None, True, None, False],
    ),
    "what belongs to jobs is asked for again once a record was not the watcher's": Case(
        lambda d: [
            d.projection.lead(1),
            d.projection.mark_children(1),
            d.projection.distrust([RecordPlace(A, "job")]),
            d.view().synced,
            raised(lambda: d.projection.mark_children(1)),
        ],
        [None, None, None, False, "Lost"],
        lead=False,
    ),
    "a view is not synced before every list has been projected": Case(
        lambda d: [d.projection.lead(1), d.job(5), d.view().synced, d.projection.mark_synced(1), d.view().synced],
        [None, [A], False, None, True],
        lead=False,
    ),
}


HISTORY = {
    "says how far each watch has got, and of which cluster": Case(
        lambda d: [
            d.projection.mark_synced(1, "red"),
            d.progress(pods=9, services__default=7),
            (h := d.projection.checkpoint()).cluster,
            dict(h.progress),
        ],
        [None, [], "red", {PODS: 9, "services/default": 7}],
    ),
    "says whether it is whole, and in which form": Case(
        lambda d: [
            d.projection.checkpoint().synced,
            d.projection.lead(1),
            d.projection.checkpoint().synced,
            d.projection.mark_synced(1, "red", "f1"),
            (h := d.projection.checkpoint()).synced,
            h.form,
            d.projection.mark_synced(1, "red"),
            d.projection.checkpoint().form,
        ],
        [False, None, False, None, True, "f1", None, ""],
        lead=False,
    ),
    "one that began anew is not whole": Case(
        lambda d: [d.projection.mark_synced(1, "red", "f1"), d.projection.reset(1), d.projection.checkpoint().synced],
        [None, None, False],
    ),
    "nor is one that was lost, though a watcher leads": Case(
        lambda d: [
            d.projection.mark_synced(1, "red", "f1"),
            d.flush(),
            d.projection.lead(1),
            (h := d.projection.checkpoint()).synced,
            h.form,
        ],
        [None, None, None, False, ""],
    ),
    "a writer that does not know the cluster leaves what is known": Case(
        lambda d: [d.projection.mark_synced(1, "red"), d.projection.mark_synced(1), d.projection.checkpoint().cluster],
        [None, None, "red"],
    ),
    "one that began anew knows nothing and is not synced": Case(
        lambda d: [
            d.projection.mark_synced(1, "red"),
            d.job(5),
            d.pod(6),
            d.progress(pods=9),
            d.projection.apply_nodes(1, {"n": b"{}"}),
            d.projection.apply_node_requests(1, {"n": b"{}"}),
            d.projection.reset(1),
            dict(d.projection.cluster().node_requests),
            d.view().job,
            d.pods(),
            dict(d.view().seen),
            d.view().synced,
            list(d.projection.known_keys()),
            list(d.projection.known_nodes()),
            d.projection.checkpoint().cluster,
            dict(d.projection.checkpoint().progress),
        ],
        [None, [A], [], [], None, None, None, {}, None, {}, {}, False, [], [], "", {}],
    ),
    "lower versions are news again: of a job, of a child, of what was deleted": Case(
        lambda d: [
            d.job(50),
            d.pod(60),
            d.no_pod(61, name="a-1"),
            drain(d),
            d.projection.reset(1),
            d.job(5),
            d.pod(6),
            d.pod(7, name="a-1"),
            sorted(d.pods()),
        ],
        [[A], [], [], None, None, [A], [], [], ["a-0", "a-1"]],
    ),
    "no minimum observed version makes a view stale for ever": Case(
        lambda d: [
            d.job(50),
            d.take(),
            d.min_observed((PODS, 90)),
            d.finish(),
            d.view().stale,
            d.projection.reset(1),
            d.job(5),
            d.view().stale,
        ],
        [[A], True, None, False, True, None, [A], False],
    ),
    "no echo swallows an event of the same number": Case(
        lambda d: [
            d.job(50),
            d.take(),
            d.finish((PODS, 60)),
            d.projection.reset(1),
            d.job(5),
            d.take(),
            d.finish(),
            d.pod(60),
        ],
        [[A], True, False, None, [A], True, False, [A]],
    ),
    "a lease outlives it, and tokens go on growing": Case(
        lambda d: [
            d.job(50),
            d.take(),
            (old := d.claims[A].token) > 0,
            d.projection.reset(1),
            d.renew(),
            d.add(),
            d.finish(),
            d.take(),
            d.claims[A].token > old,
        ],
        [[A], True, True, None, None, [], True, True, True],
    ),
    "what is queued stays queued": Case(
        lambda d: [d.job(50), d.later(1, B), d.projection.reset(1), d.wait(2), d.queued(), d.due()],
        [[A], None, None, None, 1, [B]],
    ),
    "no full resync queues what is no more": Case(
        lambda d: [d.job(50), drain(d), d.projection.reset(1), d.resync(everything=True), d.stats().unfinished],
        [[A], None, None, [], 0],
    ),
    "an older writer may not end it": Case(
        lambda d: [other(d).projection.lead(2), raised(lambda: d.projection.reset(1))], [None, "Fenced"]
    ),
}


CASES = named(writers=WRITERS, history=HISTORY)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
