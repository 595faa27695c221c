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
        "the leading watcher begins some terms anew, each a second long",
        "after the fifth: it holds the Lease, so that nobody else's token can stand there",
    ),
    (
        "raise `min_observed` or `queue:delayed`, hold a `lock`, each with the TTL or the time that it has anyway",
        "passes over that job wait",
        "when he stops, in minutes at the latest",
    ),
    (
        "the same for ever: a `lock`, `min_observed`, `gone` or `echo` without a TTL or with a long one; a time from"
        " the future in `queue:dirty` or `queue:running`; a job taken out of `jobs:unfinished`",
        "the job is not worked on; its pods run on",
        "with the leading watcher's next look, which comes with each full resync (10 minutes), and the TTL that it then"
        " gives (30 s a lock, 5 minutes the others)",
    ),
    (
        "write `rests` for a suspended job whose pods he hides as well",
        "passes over this version of the job do nothing; the pods go on",
        "with the next change of the job or of a pod, with the next list of the watcher, or after a day",
    ),
    (
        "write `deaths` from 2 on with a far time in `queue:delayed`",
        "nothing: no wait after deaths is longer than 5 minutes, and one that is counts for nothing",
        "at once",
    ),
    (
        "set `queue:turn`, `queue:in-line` or a score of `queue:line` beyond all others",
        "namespaces do not take turns: some wait as long as others have work",
        "with the leading watcher's next look at the queue, which comes with each resync (30 s)",
    ),
    (
        "take `synced` of `{prefix}:writer` away",
        "nothing is decided; running pods run on",
        "with the leading watcher's next look (30 s)",
    ),
    ("take the timer of a finished job's TTL away", "the job stays", "with the full resync after its TTL"),
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
    (
        "make up keys and messages",
        "a pass each, without a request to the API server; while his messages wait, keys that join the line have no"
        " message of their own",
        "when the queue is worked off; then with the next key that is queued, or the resync (30 to 60 s)",
    ),
    (
        "write another generation or UID beside a job's record",
        "the job is tried early or late after deaths, by 5 minutes at the most; of a job that was made again under its"
        " name, a pod is missing from the view, so that a pass asks the API server",
        "with the next event of the job or the pod, or the next list of the watcher",
    ),
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
        "take records of nodes away",
        "a gang that waits for room may say `GangTooLarge`, and starts all the same when there is room; the autoscaler"
        " sees less of the cluster",
        "with the next list of the watcher, or the next change of the node",
    ),
    (
        "put back older sums of nodes",
        "the autoscaler moves roles, between their `minReplicas` and `maxReplicas`, up as well as down",
        "with the next write of the watcher",
    ),
    (
        "write a key as another type",
        "the scripts that meet it fail, and the log has what Redis says; passes wait, and so does the watcher, for all"
        " jobs",
        "where the watcher meets it, at once: it looks all of Redis through; else with its next look",
    ),
    (
        "make kombu's bindings another type (beat's and Flower's user may, too)",
        "a process that has just started sends and takes no task; those that run go on",
        "with the leading watcher's next look at the queue (30 s)",
    ),
    (
        "write text, or a number beyond all numbers, where a number belongs",
        "it counts as 0, or as none",
        "with the next write",
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
