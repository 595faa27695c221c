"""Assembles the Lua scripts in `scripts/`: the table of keys, `common.lua`, and the script's own text.

A script runs completely or not at all, by Redis' own clock. Text of users reaches a script only as an argument.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tjworker.base import DEATH_RETRY_MOST_SECONDS, DEATH_RETRY_SECONDS, KEYS_PER_TASK, RECORDS_PER_TASK
from tjworker.store.keys import FACT_TTL_SECONDS, KEYS, REST_TTL_SECONDS

NAMES = (
    "lead",
    "apply",
    "free",
    "apply_nodes",
    "apply_node_requests",
    "mark_children",
    "mark_synced",
    "reset",
    "distrust",
    "children",
    "add",
    "add_after",
    "take_due",
    "acquire",
    "renew",
    "raise_min_observed",
    "note_rest",
    "finish",
    "resync",
    "repair",
    "repair_queue",
    "stats",
)

CONSTANTS = {
    "FACT_TTL_SECONDS": FACT_TTL_SECONDS,
    "REST_TTL_SECONDS": REST_TTL_SECONDS,
    "DEATH_RETRY_SECONDS": DEATH_RETRY_SECONDS,
    "DEATH_RETRY_MOST_SECONDS": DEATH_RETRY_MOST_SECONDS,
    "KEYS_PER_TASK": KEYS_PER_TASK,
    "RECORDS_PER_TASK": RECORDS_PER_TASK,
}
"""Under the same names in every script."""


OVER_MAXMEMORY = frozenset({"lead", "free", "finish", "resync"})
"""Scripts that also run in a Redis that has reached maxmemory. They free memory, or take little and are needed before
any can be freed. Redis refuses the others at their first write that may need memory."""


def prelude() -> str:
    """The Lua text that defines `K` and the constants. `K.<name>` is the key, or the part before the job key."""
    # Keys are built in the script, not passed in KEYS: only Redis Cluster, which is not supported, needs that.
    rows = "\n".join(f"  {key.name} = ARGV[1] .. '{key.stem}'," for key in KEYS)
    numbers = "".join(f"local {name} = {value}\n" for name, value in CONSTANTS.items())
    return f"local K = {{\n{rows}\n}}\n{numbers}"


@cache
def source(name: str) -> str:
    """The complete text of a script, as Redis gets it."""
    folder = files("tjworker.store") / "scripts"
    # No first line for the others: a script that names its flags without allow-oom is refused before it begins, and a
    # script without the line fails only at a write that needs memory.
    flags = "#!lua flags=allow-oom\n" if name in OVER_MAXMEMORY else ""
    text = (folder / f"{name}.lua").read_text()
    # `free` is `apply` with another flag. A script's flags cannot depend on its arguments, so there are two scripts.
    if name == "free":
        text += (folder / "apply.lua").read_text()
    elif name == "apply":
        text = "local FREES_ONLY = false\n" + text
    return flags + prelude() + (folder / "common.lua").read_text() + text
