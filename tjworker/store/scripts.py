"""The Lua scripts in `scripts/`, each with the table of keys and `common.lua` before it.

A script runs whole or not at all, by Redis' own clock. Text of users reaches a script only as an argument.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tjworker.store.keys import FACT_TTL_SECONDS, KEYS

NAMES = (
    "lead",
    "apply",
    "apply_nodes",
    "apply_node_requests",
    "mark_synced",
    "reset",
    "children",
    "add",
    "add_after",
    "take_due",
    "acquire",
    "renew",
    "raise_min_observed",
    "finish",
    "resync",
    "stats",
)


def prelude() -> str:
    """`K.<name>`: the key, or for a key of one job the part before the job key. ARGV[1] is always the prefix."""
    rows = "\n".join(f"  {key.name} = ARGV[1] .. '{key.stem}'," for key in KEYS)
    return f"local K = {{\n{rows}\n}}\nlocal FACT_TTL_SECONDS = {FACT_TTL_SECONDS}\n"


@cache
def source(name: str) -> str:
    """The whole text, as Redis gets it."""
    folder = files("tjworker.store") / "scripts"
    return prelude() + (folder / "common.lua").read_text() + (folder / f"{name}.lua").read_text()
