"""The Lua scripts beside this file, each with the table of keys and the common functions before it.

A script runs whole or not at all, and its times are Redis' own. Text of users reaches a script only as an argument.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tjworker.store.keys import FACT_TTL_SECONDS, KEYS

NAMES = (
    "lead",
    "apply",
    "apply_nodes",
    "apply_loads",
    "mark_synced",
    "forget_history",
    "children",
    "add",
    "add_after",
    "take_due",
    "acquire",
    "renew",
    "raise_floor",
    "finish",
    "resync",
    "stats",
)


def prelude() -> str:
    """`K.<name>`: the key, or for one key a job what stands before the job key. ARGV[1] is always the prefix."""
    rows = "\n".join(f"  {key.name} = ARGV[1] .. '{key.stem}'," for key in KEYS)
    return f"local K = {{\n{rows}\n}}\nlocal FACT_TTL_SECONDS = {FACT_TTL_SECONDS}\n"


@cache
def source(name: str) -> str:
    """The whole text of a script, as Redis gets it."""
    folder = files("tjworker.store") / "scripts"
    return prelude() + (folder / "common.lua").read_text() + (folder / f"{name}.lua").read_text()
