"""One module a row; the table of them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fault import Row
from tests.simulation.faults import (
    api_crashes,
    api_refusals,
    comings,
    fields,
    histories,
    hostile_jobs,
    kubelets,
    lost_events,
    lost_tasks,
    lost_timers,
    made_again,
    no_lock,
    paused_holders,
    prefixes,
    purity,
    redis_crashes,
    redis_faults,
    reflectors,
    second_crashes,
    stale_views,
)

ROWS: Mapping[int, Row] = {
    row.number: row
    for row in (
        api_crashes.ROW,
        redis_crashes.ROW,
        second_crashes.ROW,
        stale_views.ROW,
        lost_events.ROW,
        lost_tasks.ROW,
        paused_holders.ROW,
        no_lock.ROW,
        redis_faults.ROW,
        purity.ROW,
        prefixes.ROW,
        fields.ROW,
        histories.ROW,
        api_refusals.ROW,
        comings.ROW,
        made_again.ROW,
        reflectors.ROW,
        hostile_jobs.ROW,
        kubelets.ROW,
        lost_timers.ROW,
    )
}
