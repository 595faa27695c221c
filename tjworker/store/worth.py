"""What write access to Redis is worth. Data only: docs/redis.md, which is generated, shows it."""

from __future__ import annotations

WORTH: tuple[tuple[str, str, str], ...] = (
    (
        "remove records, queue, timers or locks, or put older ones back",
        "passes that wait, find nothing, or ask the API server again",
        "the next list of the watcher, the next change of the object, or the resync",
    ),
    (
        "raise `token` of `{prefix}:writer`",
        "the leading watcher loses some terms after a second each, and begins another",
        "the fifth term: the watcher holds the Lease, so no other watcher can have written that token",
    ),
    (
        "raise `min_observed` or `queue:delayed`, or hold a `lock`, each with its normal TTL or time",
        "passes over that job wait",
        "minutes after the attack",
    ),
    (
        "do the same for ever: a `lock`, `min_observed`, `gone` or `echo` without a TTL or with a long one; a time from"
        " the future in `queue:dirty` or `queue:running`; a job removed from `jobs:unfinished`",
        "the job is not reconciled; its pods run on",
        "the leading watcher's repair with each full resync (10 minutes), and the TTL that it then sets (30 s for a"
        " lock, 5 minutes for the others)",
    ),
    (
        "write `rests` for a suspended job and hide its pods",
        "passes over this version of the job do nothing; the pods run on",
        "the next change of the job or a pod, the next list of the watcher, or a day later",
    ),
    (
        "set `queue:turn`, `queue:in-line` or a score of `queue:line` beyond all others",
        "namespaces do not take turns: some wait as long as others have work",
        "the leading watcher's repair with each resync (30 s)",
    ),
    (
        "remove `synced` of `{prefix}:writer`",
        "nothing is decided; running pods run on",
        "the leading watcher's next repair (30 s)",
    ),
    ("remove the timer of a finished job's TTL", "the job stays", "the full resync after its TTL"),
    (
        "set `once`, with or without a TTL, again and again",
        "no resync, no autoscaler, no orphan collector",
        "a period after the attack: a key that ends after its period, or never, is ignored",
    ),
    (
        "fill Redis",
        "Redis refuses writes at its `maxmemory` (700 MB as shipped, below its memory limit), and the log says so;"
        " nothing is decided; running pods run on",
        "the keys that fill it are deleted, or Redis is emptied",
    ),
    (
        "write `deaths`",
        "the job says `Stalled` and is reconciled less often; its pods and its phase stay",
        "the next pass that completes",
    ),
    (
        "invent keys and messages",
        "a pass each, without a request to the API server; while these messages wait, keys that join the line have no"
        " message of their own",
        "the queue is empty; then the next key that is queued, or the resync (30 to 60 s)",
    ),
    (
        "write another generation or UID next to a job's record",
        "the job is retried early or late after deaths, by at most 5 minutes; for a job recreated under its name, a pod"
        " is missing from the view, so a pass asks the API server",
        "the next event of the job or the pod, or the next list of the watcher",
    ),
    (
        "hide a pod while its job succeeds",
        "the pod runs on after the end",
        "the next run of the orphan collector, which reads the API server",
    ),
    (
        "show older phases of pods",
        "`status.phase` and its numbers follow them, but no end and no restart",
        "the next true view",
    ),
    (
        "remove records of nodes",
        "a gang that waits for room may say `GangTooLarge`, and still starts when there is room; the autoscaler sees"
        " less of the cluster",
        "the next list of the watcher, or the next change of the node",
    ),
    (
        "put back older sums of nodes",
        "the autoscaler moves roles between their `minReplicas` and `maxReplicas`",
        "the next write of the watcher",
    ),
    (
        "write a key as another type",
        "scripts that use it fail, and the log has Redis' error; passes, and the watcher for all jobs, wait",
        "at once where the watcher uses it and repairs all of Redis; else its next repair",
    ),
    (
        "make kombu's bindings another type (also with beat's and Flower's user)",
        "a process that has just started sends and takes no task; running ones go on",
        "the leading watcher's next repair of the queue (30 s)",
    ),
    (
        "run a script that never ends",
        "Redis answers no client; nothing is decided",
        "Redis restarts: by its liveness probe in `k8s/` (2 minutes), else by you",
    ),
    ("read everything", "specs of unfinished jobs, as in etcd (no Secrets, but plain text in templates)", "-"),
)
"""What an attacker who can write Redis can do, what it costs, and what ends it. tests/poison tries what the record key
prevents."""
