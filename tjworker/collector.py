"""Python's garbage collector, for a process that loads much, keeps it, and then does the same small work for months."""

from __future__ import annotations

import gc

YOUNG = 10_000
"""So many new containers (lists, dicts, objects) more than were given up since set the collector off; Python's own
number is 700 (2,000 from 3.13 on). What work makes is given up without it, as it has no cycles, so this bounds what the
rare ones keep: some MiB."""


def settle() -> None:
    """Once a process has loaded what it keeps. The collector then passes over that: as Python comes, it looks after
    every 700 objects made, now and then at all of the 100,000 that were loaded, and finds nothing. In a process that
    forks, call it before as well: what the collector passes over stays shared with the children."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
