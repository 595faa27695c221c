"""What write access to Redis is worth. Data only: docs/redis.md, which is generated, shows it."""

from __future__ import annotations

WORTH: tuple[tuple[str, str, str], ...] = (
    (
        "take records, queue, timers or locks away, or put older ones back",
        "passes that wait, that find nothing, that ask the API server again",
        "with the next list of the watcher, the next change of the object, or the resync",
    ),
    (
        "raise `token` of `{prefix}:writer`",
        "no watcher writes, so nothing is decided any more; running pods run on",
        "when the key is deleted (`DEL {prefix}:writer`)",
    ),
    (
        "raise `min_observed` or `queue:delayed`, hold a `lock`, each with the TTL or the time that it has anyway",
        "passes over that job wait",
        "when he stops, in minutes at the latest",
    ),
    (
        "the same for ever: `lock` or `min_observed` without a TTL, `deaths` from 2 on with a far time in"
        " `queue:delayed` (a new spec ends that one, too)",
        "the job is not worked on any more; its pods run on",
        "when the key is deleted, or Redis emptied",
    ),
    (
        "set `queue:turn` beyond all numbers (`1e300`)",
        "namespaces do not take turns any more: some may wait as long as others have work",
        "when the key is deleted, or Redis emptied",
    ),
    (
        "set `once`, with or without a TTL, again and again",
        "no resync, no autoscaler, no orphan collector",
        "when he stops, a period later: a key that ends after its period, or never, counts for nothing",
    ),
    (
        "fill Redis",
        "it refuses writes at its `maxmemory` (ours at 700 MB, below its memory limit), and the log says so; nothing is"
        " decided any more; running pods run on",
        "when the keys that fill it are deleted, or Redis emptied",
    ),
    (
        "write `deaths`",
        "the job says `Stalled` and is looked at less often; its pods and its phase stay",
        "with the next pass that comes to its end",
    ),
    ("make up keys and messages", "a pass each, without a request to the API server", "when the queue is worked off"),
    (
        "hide a pod while its job succeeds",
        "the pod runs on after the end",
        "when the orphan collector, which reads the API server, comes by",
    ),
    (
        "show older phases of pods",
        "`status.phase` and its numbers follow them, short of an end and of a restart",
        "with the next true view",
    ),
    (
        "put back older sums of nodes",
        "the autoscaler moves roles, between their `minReplicas` and `maxReplicas`, up as well as down",
        "with the next write of the watcher",
    ),
    (
        "write a key as another type, or text where a number belongs",
        "the scripts that meet it fail, and the log has what Redis says; passes wait",
        "when the key is deleted, or Redis emptied",
    ),
    (
        "run a script that never ends",
        "Redis answers nobody; nothing is decided any more",
        "when Redis is started anew: by its liveness probe in `k8s/` (2 minutes), else by you",
    ),
    (
        "read everything",
        "specs of unfinished jobs, as in etcd (no Secrets, but what a template says in plain text)",
        "-",
    ),
)
"""What is left to somebody who can write Redis: what he can do, what it costs, when it is over.
tests/poison tries what a record key would keep him from."""
