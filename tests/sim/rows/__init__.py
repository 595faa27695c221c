"""One module a row; the table of them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim.row import Row
from tests.sim.rows import api_crashes, redis_crashes, second_crashes

ROWS: Mapping[int, Row] = {row.number: row for row in (
    api_crashes.ROW,
    redis_crashes.ROW,
    second_crashes.ROW,
)}
