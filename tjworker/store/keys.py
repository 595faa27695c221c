"""Every Redis key of the operator: name, type, TTL, who writes, who reads. The one place where a key is named.

Data only. `scripts.py` makes the table `K` of every Lua script from it and `redis_store.py` its reads, so a key that is
not here cannot be used; `docs/redis.md` is generated from it (`python -m tjworker.store.keys`). `{prefix}` is the
setting `key_prefix`, `{key}` a job key (`<plural>/<namespace>/<name>`, checked by `base.parse_key`), never other text.
Keys of Celery itself are listed at the end of the page: they are kombu's and only read here.

All of it can be thrown away at any time: the watcher lists everything again and the full resync queues every job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

FACT_TTL_SECONDS = 300
"""How long floors, echoes and tombstones are kept: long after any watch has delivered what they tell of."""


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `name` is what scripts call it (`K.<name>`); one key a job when the pattern ends with `{key}`."""

    name: str
    pattern: str
    type: Literal["string", "hash", "set", "sorted set", "list"]
    ttl: str
    writers: str
    readers: str
    holds: str

    @property
    def stem(self) -> str:
        """The pattern without its parts that vary: what follows the prefix, up to the job key or name."""
        return self.pattern.removeprefix("{prefix}").removesuffix("{key}").removesuffix("{name}")

    def of(self, prefix: str, suffix: str = "") -> str:
        """The key in Redis."""
        return f"{prefix}{self.stem}{suffix}"


KEYS: tuple[Key, ...] = (
    # -- projection
    Key(
        "writer",
        "{prefix}:writer",
        "hash",
        "none",
        "watcher (lead, apply, mark_synced, forget_history)",
        "watcher, workers",
        "`token` of the leading watcher, `seq` = a number that grows with each of its writes, `synced` = 1 "
        "once every list has been projected, `cluster` = UID of the namespace kube-system of the cluster that it is of, "
        "`form` = fingerprint of the code that had it synced. "
        "Absent: the projection has vanished. A `seq` below what the writer remembers: Redis came back with an "
        "older state.",
    ),
    Key(
        "job",
        "{prefix}:job:{key}",
        "hash",
        "none",
        "watcher",
        "workers, tj",
        "`job` = `<rv> <1 when finished> <record>`; `<resource>/<name>` = `<rv> <record>` for each child. A "
        "finished job has only `job`.",
    ),
    Key(
        "known",
        "{prefix}:jobs:known",
        "set",
        "none",
        "watcher",
        "watcher (sweep after a relist)",
        "every job key that has a `job` hash",
    ),
    Key(
        "unfinished",
        "{prefix}:jobs:unfinished",
        "set",
        "none",
        "watcher",
        "beat (full resync), metrics",
        "every job that has not ended",
    ),
    Key(
        "progress",
        "{prefix}:progress",
        "hash",
        "none",
        "watcher",
        "workers",
        "`<resource>` or `<resource>/<namespace>` = resourceVersion up to which that watch has shown everything "
        "(lists, events, bookmarks)",
    ),
    Key(
        "seen",
        "{prefix}:seen:{key}",
        "hash",
        "none",
        "watcher",
        "workers",
        "`<resource>` = newest resourceVersion projected of this job's children",
    ),
    Key(
        "gone",
        "{prefix}:gone:{key}",
        "hash",
        f"{FACT_TTL_SECONDS} s",
        "watcher",
        "watcher",
        "tombstones: `job` or `<resource>/<name>` = resourceVersion of its deletion, so that older news does not "
        "bring it back",
    ),
    Key("nodes", "{prefix}:nodes", "hash", "none", "watcher", "workers, autoscaler", "`<node>` = record"),
    Key(
        "load",
        "{prefix}:load",
        "hash",
        "none",
        "watcher",
        "autoscaler",
        "`<node>` = what the pods there that have not finished ask for, everybody's; `-` = those that wait for a node",
    ),
    # -- work queue
    Key(
        "dirty",
        "{prefix}:queue:dirty",
        "sorted set",
        "none",
        "watcher, workers, beat",
        "workers, beat, metrics",
        "keys that are to be reconciled; score = since when, in seconds. A key that runs and is here runs again after.",
    ),
    Key(
        "running",
        "{prefix}:queue:running",
        "sorted set",
        "none",
        "workers",
        "beat, metrics",
        "keys that a worker holds; score = end of its lease, in seconds. Left behind by a holder that died: the "
        "resync queues it.",
    ),
    Key(
        "delayed",
        "{prefix}:queue:delayed",
        "sorted set",
        "none",
        "workers",
        "watcher (take_due), metrics",
        "keys to be queued later; score = when, in seconds. The earlier of two times stays. Emptied of a key when "
        "its next pass begins.",
    ),
    Key(
        "failures",
        "{prefix}:failures",
        "hash",
        "none",
        "workers",
        "workers, metrics",
        "`<key>` = passes that failed in a row",
    ),
    # -- locks
    Key(
        "lock",
        "{prefix}:lock:{key}",
        "string",
        "lock_ttl_seconds, renewed",
        "workers",
        "workers, watcher (does it run?)",
        "`<fencing token> <owner>` of the worker that holds the key",
    ),
    Key(
        "fence",
        "{prefix}:fence",
        "string",
        "none",
        "workers",
        "workers",
        "the last fencing token: max(last + 1, Redis' clock in microseconds), so that it never goes back, not "
        "even after FLUSHALL",
    ),
    # -- own writes
    Key(
        "floor",
        "{prefix}:floor:{key}",
        "hash",
        f"{FACT_TTL_SECONDS} s",
        "workers",
        "workers",
        "`<resource>` = resourceVersion of the operator's own last write for the job; a view that has seen less "
        "is stale",
    ),
    Key(
        "echo",
        "{prefix}:echo:{key}",
        "set",
        f"{FACT_TTL_SECONDS} s",
        "workers, watcher",
        "watcher",
        "`<resource>:<rv>` of own writes that the watch has not shown yet; its event is taken out and queues nothing",
    ),
    Key(
        "news",
        "{prefix}:news:{key}",
        "set",
        "none (gone when the pass ends or the next begins)",
        "watcher",
        "workers",
        "`<resource>:<rv>` of events that came while the key was held; `finish` takes its own writes out, and "
        "what remains queues the key again",
    ),
    # -- periodic tasks
    Key(
        "once",
        "{prefix}:once:{name}",
        "string",
        "the task's period",
        "beat tasks",
        "beat tasks",
        "taken by the one caller of this period",
    ),
    # -- Celery's
    Key(
        "broker",
        "{prefix}",
        "list",
        "none",
        "kombu",
        "beat (is a task lost, or only waiting?), metrics",
        "Celery's queue of messages, named by the prefix",
    ),
)
BY_NAME = {key.name: key for key in KEYS}


def markdown() -> Iterator[str]:
    """docs/redis.md, line by line."""
    yield "# Redis keys"
    yield ""
    yield "Generated by `python -m tjworker.store.keys` from `tjworker/store/keys.py`; a test compares the two."
    yield ""
    yield "One Redis (or Valkey, from 7.0 on), not Redis Cluster: a script touches keys of one job and of the queue at once."
    yield "Times are Redis' own clock (`TIME`), so all machines share one. Nothing here is the truth: after `FLUSHALL` the"
    yield "watcher lists everything again and every unfinished job is queued. Set `maxmemory-policy noeviction` (the default):"
    yield "a Redis that evicts what it likes makes the watcher list again and again."
    yield ""
    yield "| key | type | TTL | written by | read by | holds |"
    yield "|---|---|---|---|---|---|"
    for key in KEYS:
        yield f"| `{key.pattern}` | {key.type} | {key.ttl} | {key.writers} | {key.readers} | {key.holds} |"
    yield ""
    yield "Celery adds, in the same database, `_kombu.binding.*` and the pub/sub channels of its events and remote control. An"
    yield "ACL user needs the keys `~{prefix}*`, `~_kombu*` and `~*.{prefix}.control.pidbox*` (mailboxes of the remote control)"
    yield "and the channels `&*`."


if __name__ == "__main__":
    import sys

    sys.stdout.write("\n".join(markdown()) + "\n")
