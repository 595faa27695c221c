"""The table of Redis keys: name, type, TTL, writers, readers and content. No other place names a key.

Data only. `scripts.py` makes the table `K` of every Lua script from it, and `redis_commands.py` looks names up in it,
so a key that is not here cannot be used. `docs/redis.md` is generated from it (`python -m tjworker.store.keys`).
`{prefix}` is the setting `key_prefix`. `{key}` is a job key (`<plural>.<group>/<namespace>/<name>`) that
`base.parse_key` has checked, never other text.

Every key can be deleted at any time: the watcher lists everything again, and the full resync queues every job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tjworker.store import users
from tjworker.store.worth import WORTH

FACT_TTL_SECONDS = 300
"""How long minimum observed resourceVersions, echoes and tombstones are kept. By then every watch has delivered the
events that they are about."""

WORKERS_TTL_SECONDS = 60
REST_TTL_SECONDS = 86_400
"""A suspended job is read from the API server once a day, because a new version of the operator may treat it
differently."""


@dataclass(frozen=True, slots=True)
class Key:
    """One row. Scripts call it `K.<name>`. A pattern that ends with `{key}` is one key for each job."""

    name: str
    pattern: str
    type: Literal["string", "hash", "set", "sorted set", "list"]
    writers: str
    readers: str
    holds: str
    ttl: str = "none"
    ttl_seconds: int = 0
    """The time to live that every write gives the key; 0 if it has none."""

    @property
    def is_one(self) -> bool:
        """True for a single key, False for a row with a key for each job or name."""
        return "}" not in self.pattern.removeprefix("{prefix}")

    @property
    def stem(self) -> str:
        """The part of the pattern between the prefix and the job key or name."""
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
        "watcher (lead, apply, mark_children, mark_synced, reset); workers (distrust)",
        "watcher, workers",
        "`token` of the leading watcher; `seq` = a number that grows with each of its writes; `synced` = 1 once every"
        " list has been projected, and until then `children` = 1 once all but those of jobs have; `cluster` = cluster"
        " id (UID of the namespace kube-system); `form` = name of the"
        " record key and fingerprint of the code that wrote the records. Absent: the projection has vanished."
        " A `seq` below the one that the writer"
        " remembers: Redis came back with an older state.",
    ),
    Key(
        "job",
        "{prefix}:job:{key}",
        "hash",
        "watcher",
        "workers, tj",
        "`job` = `<resourceVersion> <1 when finished> <generation> <UID> <record>`; `<resource>/<name>` ="
        " `<resourceVersion> <record>` of each child. A finished job has only `job`, until a child of its successor"
        " comes before that. Each record begins with its seal and is packed (deflate, words known beforehand).",
    ),
    Key(
        "known",
        "{prefix}:jobs:known",
        "set",
        "watcher",
        "watcher (sweep after a relist)",
        "every job key that has a `job` hash",
    ),
    Key(
        "unfinished",
        "{prefix}:jobs:unfinished",
        "set",
        "watcher",
        "beat (full resync, autoscaler)",
        "key of every job that has not ended",
    ),
    Key(
        "progress",
        "{prefix}:progress",
        "hash",
        "watcher",
        "watcher, workers",
        "`<resource>` or `<resource>/<namespace>` = resourceVersion up to which that watch has shown everything"
        " (lists, events, bookmarks); of objects that jobs name, such as runtimes, the one of the last change",
    ),
    Key(
        "seen",
        "{prefix}:seen:{key}",
        "hash",
        "watcher",
        "workers",
        "`<resource>` = newest resourceVersion projected of this job's children",
    ),
    Key(
        "gone",
        "{prefix}:gone:{key}",
        "hash",
        "watcher",
        "watcher",
        "tombstones: `job` or `<resource>/<name>` = resourceVersion of its deletion, so that an older event does not"
        " bring it back",
        ttl=f"{FACT_TTL_SECONDS} s",
        ttl_seconds=FACT_TTL_SECONDS,
    ),
    Key("nodes", "{prefix}:nodes", "hash", "watcher", "workers, autoscaler", "`<node>` = sealed record"),
    Key(
        "node_requests",
        "{prefix}:node_requests",
        "hash",
        "watcher",
        "autoscaler",
        "`<node>` = sealed sum of the resource requests of all unfinished pods on it, ours or not; `-` = of the pods"
        " that wait for a node",
    ),
    # -- work queue
    Key(
        "dirty",
        "{prefix}:queue:dirty",
        "sorted set",
        "watcher, workers, beat",
        "workers, beat",
        "keys to reconcile; score = queued since, in seconds. A key that is also running runs again after.",
    ),
    Key(
        "line",
        "{prefix}:queue:line",
        "sorted set",
        "watcher, workers, beat",
        "workers",
        "the queued keys that no worker holds; score = the key's turn. The lowest is served next. Namespaces take"
        " turns, one key each.",
    ),
    Key(
        "in_line",
        "{prefix}:queue:in-line",
        "hash",
        "watcher, workers, beat",
        "watcher, workers, beat",
        "`<namespace>` = how many of its keys are in line",
    ),
    Key(
        "missing",
        "{prefix}:queue:missing",
        "string",
        "beat (resync)",
        "beat (resync)",
        "how many tasks were missing at the last resync: fewer messages in Celery's queue than serve the keys in line."
        " As many as are missing at two in a row were lost.",
    ),
    Key("turn", "{prefix}:queue:turn", "string", "workers", "watcher, workers, beat", "the turn that was served last"),
    Key(
        "running",
        "{prefix}:queue:running",
        "sorted set",
        "workers",
        "beat",
        "keys that a worker has leased; score = end of the lease, in seconds. A worker that dies leaves its key here,"
        " and the resync queues it.",
    ),
    Key(
        "delayed",
        "{prefix}:queue:delayed",
        "sorted set",
        "workers, watcher",
        "watcher (take_due)",
        "keys to queue later; score = when, in seconds. The earlier of two times stays. A key leaves it when its next"
        " pass begins.",
    ),
    Key("failures", "{prefix}:failures", "hash", "workers", "workers", "`<key>` = passes that failed in a row"),
    Key(
        "deaths",
        "{prefix}:deaths",
        "hash",
        "watcher, workers, beat",
        "watcher, workers, beat",
        "`<key>` = passes in a row whose worker died. From the second on, the key waits in `queue:delayed`, and of"
        " all news only a new spec ends that wait.",
    ),
    # -- leases
    Key(
        "lock",
        "{prefix}:lock:{key}",
        "string",
        "workers",
        "workers, watcher (does it run?)",
        "the lease on a key: `<fencing token> <owner>` of the worker that has it",
        ttl="lock_ttl_seconds, renewed",
    ),
    Key(
        "fence",
        "{prefix}:fence",
        "string",
        "workers",
        "workers",
        "the last fencing token: max(last + 1, Redis' clock in microseconds), so that tokens only grow, even after"
        " FLUSHALL",
    ),
    # -- own writes
    Key(
        "min_observed",
        "{prefix}:min_observed:{key}",
        "hash",
        "workers",
        "workers",
        "`<resource>` = minimum observed resourceVersion: that of the operator's own last write for the job. A view"
        " that has seen less is stale.",
        ttl=f"{FACT_TTL_SECONDS} s",
        ttl_seconds=FACT_TTL_SECONDS,
    ),
    Key(
        "echo",
        "{prefix}:echo:{key}",
        "set",
        "workers, watcher",
        "watcher",
        "`<resource>:<resourceVersion>` of own writes that the watch has yet to show; the event of such a write is"
        " taken out and queues nothing",
        ttl=f"{FACT_TTL_SECONDS} s",
        ttl_seconds=FACT_TTL_SECONDS,
    ),
    Key(
        "news",
        "{prefix}:news:{key}",
        "set",
        "watcher",
        "workers",
        "`<resource>:<resourceVersion>` of events that came while the key was leased; `finish` takes out the pass's own"
        " writes, and queues the key again when any is left. `edited`: the job got a new spec meanwhile, after earlier"
        " passes had died; should this one die, too, the key does not wait",
        ttl="none (deleted when the pass ends or the next one begins)",
    ),
    Key(
        "rests",
        "{prefix}:rests:{key}",
        "string",
        "workers",
        "workers",
        "resourceVersion of a job that is suspended, or whose first pods the API server has refused: a pass"
        " has read this version from the API server, and there was nothing to do. While the job has no objects, later"
        " passes over this version ask for nothing.",
        ttl=f"{REST_TTL_SECONDS} s (deleted with the job, and at its end)",
        ttl_seconds=REST_TTL_SECONDS,
    ),
    # -- the page
    Key(
        "workers",
        "{prefix}:workers",
        "sorted set",
        "workers",
        "page",
        "`<host>/<process>` of every process that runs passes, also of an idle one; score = when its worker last said"
        " so, in seconds. Nothing decides by it",
        ttl=f"{WORKERS_TTL_SECONDS} s",
        ttl_seconds=WORKERS_TTL_SECONDS,
    ),
    # -- history
    Key(
        "history",
        "{prefix}:history:job:{name}",
        "hash",
        "watcher (its own thread, which nothing waits for)",
        "page, tj",
        "what is kept of a job under `<namespace>/<UID>`, also after its deletion: `summary`, `job` = its last object"
        " without environment values, `pod/<UID>` of each pod that has ended, `at/<time>/<phase>` = message. Not"
        " sealed: nothing decides by it",
        ttl="30 days or `history_seconds`, whichever is longer; `history:jobs` ends it earlier",
    ),
    Key(
        "history_jobs",
        "{prefix}:history:jobs",
        "sorted set",
        "watcher",
        "page, tj",
        "`<namespace>/<UID>` of every job in the history; score = until when it is kept, in seconds. Beyond"
        " `history_jobs` the lowest go",
    ),
    # -- periodic tasks
    Key(
        "once",
        "{prefix}:once:{name}",
        "string",
        "beat tasks",
        "beat tasks",
        "set by the one caller of this period",
        ttl="the task's period",
    ),
    # -- Celery's
    Key(
        "broker",
        "{prefix}",
        "list",
        "kombu",
        "watcher, workers, beat (does a task wait for the keys in line, or is one missing?)",
        "Celery's queue of tasks for keys, which has the prefix for its name; each task serves up to 16 keys in line",
    ),
    Key(
        "periodic",
        "{prefix}.periodic",
        "list",
        "kombu",
        "kombu",
        "Celery's queue of beat's tasks: they do not wait behind the keys",
    ),
)
BY_NAME = {key.name: key for key in KEYS}


_INTRODUCTION = """\
# Redis keys

Generated by `python -m tjworker.store.keys` from `tjworker/store/keys.py`; a test compares the two.

One Redis (or Valkey, from 7.0 on), not Redis Cluster: a script touches keys of one job and of the
queue at once. Times are Redis' own clock (`TIME`), which all machines share. Nothing here is the
truth: after `FLUSHALL` the watcher lists everything again and every unfinished job is queued. Set
`maxmemory-policy noeviction` (the default): a Redis that evicts keys makes the watcher list again
and again. Set `maxmemory` well below the memory of its machine or container: a full Redis refuses
writes; a killed one loads the same data and is killed again.

The record of an unfinished job has its spec, labels and annotations up to 64 KiB together. That of a
larger, a suspended or a refused job has less than 1 KiB: `leftOut`, the size in bytes, replaces the
spec, and a worker that needs the spec reads the job from the API server. With
`hash-max-listpack-value 1024` and `hash-max-listpack-entries 64`, as in `k8s/`, all keys of a
suspended, refused or ended job take at most 1 KiB together, without them 150 bytes more. When Redis
is full, it refuses `apply.lua`; the watcher then runs `free.lua`, which writes only deletions and
records that are no longer than the stored ones. The log and the alert `TjRedisFull` report it.

| key | type | TTL | written by | read by | holds |
|---|---|---|---|---|---|"""
_END = """
Celery adds, in the same database, `_kombu.binding*`, the mailboxes `*.{prefix}.control.pidbox` and
the pub/sub channels of its events and of the remote control.

## Redis' users

Watcher and workers are `tj`; beat and Flower, which only send and read messages, are `tj-tasks` and
see no record, no lock and no key of the queue; the page is `tj-page` and may only read; `probe` may
`PING`. `tj up` makes them, too. With the prefix `tj`, in database 0 (in another one the channels
begin with its number):

```
@ACL@
```

Two operators on one Redis need two prefixes, but are not safe from each other: kombu's bindings
(`~_kombu*`) and Redis' time are common. Neither prefix may begin with the other: `~{prefix}???` is
there for kombu's priorities, and with `tj` it matches the queue of `tj-eu`, too. Operators that do
not trust each other need a Redis each.

## What write access to Redis is worth

The watcher seals each record with a key that only it and the workers have, and the API server
confirms destructive decisions ([ADR 19](adr/0019-records-are-sealed.md)). An attacker who can write
Redis without a record key has no object made, changed or deleted beyond the job's own spec, has no
restart counted, and ends no job: `tests/poison` writes, changes, deletes, puts back and copies every
record under live jobs. A forged, changed or moved record is not used; the log says where it was, and
the watcher lists everything again, at most once a minute. The table has what remains, and what ends
it; the attacker can repeat it until the password is changed. Emptying Redis then loses nothing
([operations.md](operations.md#emptying-redis)).

| an attacker can | which costs | until |
|---|---|---|"""


def markdown() -> Iterator[str]:
    """docs/redis.md, line by line."""
    yield from _INTRODUCTION.splitlines()
    for key in KEYS:
        yield f"| `{key.pattern}` | {key.type} | {key.ttl} | {key.writers} | {key.readers} | {key.holds} |"
    for line in _END.splitlines():
        yield from users.acl("tj", ">PASSWORD", ">ANOTHER", ">A-THIRD") if line == "@ACL@" else [line]
    for row in WORTH:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    import sys

    sys.stdout.write("\n".join(markdown()) + "\n")
