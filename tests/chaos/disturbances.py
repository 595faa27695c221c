"""What happens to the system: one function a row of the table. Each gets the system, a seeded source and how much of
the full number is asked for (`share`), and returns its notes: what was counted and measured. When it returns, what it
broke is mended.
"""

from __future__ import annotations

import math
import random
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from tests.chaos.proxy import Faults, Listed
from tests.chaos.spoiled import Fate
from tests.chaos.system import BEATS, LOCK_TTL_SECONDS, WATCHERS, WORKERS, NotInTimeError, System, listen
from tjworker.base import JobKey, OperatorError
from tjworker.kube import rbac

CONSUMERS_BACK_SECONDS = 30.0
BACK_AFTER_OUTAGE_SECONDS = 5.0
"""From the return of Redis until each worker has begun a pass."""
TAKE_OVER_SECONDS = 20.0
HALF_OPEN_SECONDS = 90.0
DEAD_SECONDS = 75.0
BETWEEN_LISTS_SECONDS = 30.0
ON_THE_WAY_SECONDS = 1.0
"""Of two requests that leave a process so far apart the first may be this much later at the proxy than the second."""


@dataclass(frozen=True, slots=True)
class Chaos:
    system: System
    rng: random.Random
    share: float
    keys: tuple[JobKey, ...]
    """Of jobs that stand: a pass over them does nothing."""

    def times(self, full: int) -> int:
        return max(1, round(full * self.share))

    def rest(self, least: float, most: float) -> None:
        time.sleep(self.rng.uniform(least, most))


def nothing(chaos: Chaos) -> str:
    chaos.rest(12, 12)
    return ""


def kills(chaos: Chaos) -> str:
    """Of two, one is a child of a worker, which costs a task and nothing else; the others are whole processes."""
    count = chaos.times(200)
    for _ in range(count):
        worker = chaos.rng.choice(WORKERS)
        if chaos.rng.random() >= 0.5 or not chaos.system.kill_child(worker, chaos.rng.choice):
            chaos.system.kill(chaos.rng.choice((*WORKERS, *WORKERS, *WATCHERS, *BEATS)))
        chaos.rest(0.3, 2.5)
    return f"{count} kills -9: " + ", ".join(f"{n} of a {what}" for what, n in sorted(chaos.system.killed.items()))


def pauses(chaos: Chaos) -> str:
    """A worker stops in the middle of whatever it does, for longer than its lease, and goes on; sometimes both do."""
    count = chaos.times(20)
    for _ in range(count):
        asleep = [chaos.rng.choice(WORKERS)] if chaos.rng.random() < 0.8 else list(WORKERS)
        for name in asleep:
            chaos.system.pause(name)
        chaos.rest(LOCK_TTL_SECONDS + 1, LOCK_TTL_SECONDS + 4)
        for name in asleep:
            chaos.system.go_on(name)
        chaos.rest(0.5, 3)
    return (
        f"{count} times a worker (or both) slept {LOCK_TTL_SECONDS + 1} s or longer, the lease is {LOCK_TTL_SECONDS} s"
    )


def redis_wiped(chaos: Chaos) -> str:
    count = chaos.times(8)
    for _ in range(count):
        chaos.rest(1, 6)
        chaos.system.redis_command("FLUSHALL")
    return f"FLUSHALL {count} times"


def redis_restarted(chaos: Chaos) -> str:
    """And after each: seconds until both workers have ended a task."""
    count, took = chaos.times(20), []
    for _ in range(count):
        chaos.rest(0.5, 2)
        chaos.system.redis.kill()
        chaos.rest(0.2, 3)
        chaos.system.redis.start()
        took.append(max(seconds_until_all_work(chaos, time.time()).values()))
    good = sum(seconds <= CONSUMERS_BACK_SECONDS for seconds in took)
    note = (
        f"killed -9 and started {count} times; both workers consumed again within {CONSUMERS_BACK_SECONDS:.0f} s in "
        f"{good} of {count}, the slowest after {max(took):.1f} s"
    )
    if good < count:
        raise NotInTimeError(note)
    return note


NUDGE_SECONDS = 0.2
LISTEN_SECONDS = 60.0
_OWNER = re.compile(rf"{re.escape(socket.gethostname())}/(\d+) ")
"""As a worker's process calls itself in a lease (`tjworker.worker.runtime.connect`)."""


def seconds_until_all_work(chaos: Chaos, since: float) -> dict[str, float]:
    """Worker -> seconds from `since` (Unix time) until it began a pass. Keys of standing jobs are queued until each
    has: the owner of a key's lease is the process that runs the pass, and Redis says when it took it.

    Raises NotInTimeError after a minute."""
    system, took, nudge_at = chaos.system, dict[str, float](), 0.0
    for at, command in listen(system.redis.port, LISTEN_SECONDS):
        if time.monotonic() >= nudge_at:
            nudge_at = time.monotonic() + NUDGE_SECONDS
            with suppress(OperatorError):
                system.publisher.publish(system.store.queue.add(chaos.keys))
        if owner := _OWNER.search(f"{command} "):
            for name in WORKERS:
                if name not in took and int(owner[1]) in system.children(name):
                    took[name] = max(0.0, at - since)
        if len(took) == len(WORKERS):
            return took
    missing = [name for name in WORKERS if name not in took]
    raise NotInTimeError(f"not within {LISTEN_SECONDS:.0f} s: a pass of {' and of '.join(missing)}")


def redis_rolled_back(chaos: Chaos) -> str:
    count = chaos.times(6)
    for _ in range(count):
        with chaos.system.redis_as_it_is_now() as put_back:
            chaos.rest(3, 8)
            put_back()
        chaos.rest(2, 4)
    return f"killed and started with its files of some seconds ago, {count} times"


def redis_read_only(chaos: Chaos) -> str:
    count = chaos.times(4)
    for _ in range(count):
        chaos.system.redis_command("REPLICAOF", "127.0.0.1", "1")
        chaos.rest(5, 10)
        chaos.system.redis_command("REPLICAOF", "NO", "ONE")
        chaos.rest(2, 4)
    return f"made a replica of nothing (so read-only) for 5 to 10 s, {count} times"


def redis_full(chaos: Chaos) -> str:
    count = chaos.times(4)
    for _ in range(count):
        chaos.system.redis_command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        chaos.system.redis_command("CONFIG", "SET", "maxmemory", "1")
        chaos.rest(5, 10)
        chaos.system.redis_command("CONFIG", "SET", "maxmemory", "0")
        chaos.rest(2, 4)
    return f"out of memory (noeviction) for 5 to 10 s, {count} times"


Mend = Callable[[], object]


def _kill_redis(system: System) -> Mend:
    system.redis.kill()
    return system.redis.start


def _cut_redis_off(system: System) -> Mend:
    system.line.swallow()
    return system.line.pass_on


def _make_redis_read_only(system: System) -> Mend:
    system.redis_command("REPLICAOF", "127.0.0.1", "1")
    return partial(system.redis_command, "REPLICAOF", "NO", "ONE")


def _fill_redis(system: System) -> Mend:
    system.redis_command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    system.redis_command("CONFIG", "SET", "maxmemory", "1")
    return partial(system.redis_command, "CONFIG", "SET", "maxmemory", "0")


def _roll_redis_back(system: System) -> Mend:
    """Its files of this moment are what it comes back with, seconds of work later: a failover to a replica that was
    behind."""
    stack = ExitStack()
    put_back = stack.enter_context(system.redis_as_it_is_now())
    time.sleep(3)
    system.redis.kill()

    def mend() -> None:
        with stack:
            put_back()

    return mend


OUTAGES: Mapping[str, Callable[[System], Mend]] = {
    "killed": _kill_redis,
    "cut off": _cut_redis_off,
    "read-only": _make_redis_read_only,
    "full": _fill_redis,
    "failed over": _roll_redis_back,
}
AWAY_SECONDS = (5, 40, 90, 600)
"""Shorter and longer than each limit that runs meanwhile: a lease (10 s), a task's limits (30 and 60 s), an answer of
the API server. The limits that a kubelet has are longer than all of them."""
LONGEST_SHARE = 1.0
"""Of all numbers, from which on the outages of ten minutes are played."""
GRACE_SECONDS = {"worker": 75.0, "watcher": 20.0, "beat": 10.0}
"""Between SIGTERM and SIGKILL, as `k8s/` has it."""
BEFORE_SIGTERM_SECONDS = 12.0
"""So long into an outage every process has noticed it."""


def redis_away(how: str, chaos: Chaos) -> str:
    """In every length, with jobs that begin meanwhile: no process may end, and each worker must begin a pass soon after
    Redis is back. Once more, and every process gets SIGTERM meanwhile."""
    notes, slow = [], []
    for seconds in AWAY_SECONDS:
        if seconds == max(AWAY_SECONDS) and chaos.share < LONGEST_SHARE:
            continue
        chaos.rest(2, 4)
        mend = OUTAGES[how](chaos.system)
        chaos.rest(seconds, seconds)
        mend()
        took = sorted(seconds_until_all_work(chaos, time.time()).values())
        notes.append(f"{seconds} s: {took[0]:.1f}, {took[-1]:.1f} s")
        if took[-1] > BACK_AFTER_OUTAGE_SECONDS:
            slow.append(seconds)
    note = f"the first pass, and one of each worker, so long after an outage of {'; '.join(notes)}"
    chaos.rest(2, 4)
    note += f". {_sigterm_meanwhile(how, chaos)}"
    if slow:
        raise NotInTimeError(f"{note}; more than {BACK_AFTER_OUTAGE_SECONDS:.0f} s")
    return note


def _sigterm_meanwhile(how: str, chaos: Chaos) -> str:
    """To every process. Those that are started in their place must work once Redis is back."""
    names = (*WORKERS, *WATCHERS, *BEATS)
    mend = OUTAGES[how](chaos.system)
    chaos.rest(BEFORE_SIGTERM_SECONDS, BEFORE_SIGTERM_SECONDS)
    ended = chaos.system.terminate(names, max(GRACE_SECONDS.values()))
    mend()
    seconds_until_all_work(chaos, time.time())
    latest, wrong = dict[str, float](), list[str]()
    for name in names:
        what, (code, seconds) = name.rstrip("0123456789"), ended.get(name, ("it runs on", math.inf))
        latest[what] = max(seconds, latest.get(what, 0.0))
        if code != "exit code 0" or seconds > GRACE_SECONDS[what]:
            wrong.append(f"{name}: {code} after {seconds:.1f} s")
    if wrong:
        raise NotInTimeError(f"SIGTERM meanwhile, {', '.join(wrong)}")
    return "SIGTERM meanwhile: " + ", ".join(f"a {what} ended after {s:.1f} s" for what, s in latest.items())


def api_server_dies(chaos: Chaos) -> str:
    count, lists = chaos.times(4), 0
    for _ in range(count):
        chaos.system.kill_api_server()
        died = time.monotonic()
        chaos.rest(2, 8)
        lists += len(watchers_lists(chaos.system, died))
        chaos.system.start_api_server()
        chaos.rest(8, 12)
    return f"kube-apiserver killed -9, away for 2 to 8 s, {count} times; {lists} lists were tried meanwhile"


def api_server_freezes(chaos: Chaos) -> str:
    """Longer than a request's time-out (15 s) and a watch's silence is noticed; connections stay open."""
    count = chaos.times(2)
    for _ in range(count):
        chaos.system.freeze_api_server()
        chaos.rest(17, 20)
        chaos.system.thaw_api_server()
        chaos.rest(4, 6)
    return f"kube-apiserver stopped (SIGSTOP) for 17 to 20 s, {count} times"


def api_server_slow(chaos: Chaos) -> str:
    chaos.system.proxy.faults = Faults(latency_seconds=0.3)
    time.sleep(chaos.times(60))
    chaos.system.proxy.faults = Faults()
    return f"each request of the operator 0.3 to 0.6 s late, for {chaos.times(60)} s"


def api_server_refuses(chaos: Chaos) -> str:
    before = chaos.system.proxy.refused
    chaos.system.proxy.faults = Faults(refused_share=0.4)
    time.sleep(chaos.times(60))
    chaos.system.proxy.faults = Faults()
    return (
        f"4 of 10 requests of the operator got 429 for {chaos.times(60)} s: {chaos.system.proxy.refused - before}"
        " in all"
    )


def answers_are_lost(chaos: Chaos) -> str:
    before = chaos.system.proxy.cut
    chaos.system.proxy.faults = Faults(cut_share=0.3)
    time.sleep(chaos.times(60))
    chaos.system.proxy.faults = Faults()
    return (
        f"3 of 10 writes were done and the answer lost, for {chaos.times(60)} s: {chaos.system.proxy.cut - before}"
        " in all"
    )


def watches_broken(chaos: Chaos) -> str:
    """It is mended when the last half-open watch has been given up: that it is one, nobody but the watcher itself can
    find out, within 90 s each time."""
    proxy, seconds = chaos.system.proxy, chaos.times(120)
    proxy.fates.clear()
    proxy.silences.clear()
    proxy.faults = Faults(fates=tuple(Fate))
    proxy.break_watches()
    time.sleep(seconds)
    proxy.faults = Faults()
    try:
        chaos.system.until("half-open watches are given up", lambda: not proxy.silent_now, HALF_OPEN_SECONDS)
    except NotInTimeError as error:
        raise NotInTimeError(f"{error}; held on: {', '.join(sorted(proxy.silent_now.values()))}") from None
    dealt = ", ".join(f"{count} {fate}" for fate, count in sorted(proxy.fates.items()))
    note = (
        f"{proxy.fates.total()} watches opened in {seconds} s: {dealt}; those half-open were given up after "
        f"{max(proxy.silences, default=0):.0f} s at most"
    )
    if set(proxy.fates) != set(Fate) or max(proxy.silences) > HALF_OPEN_SECONDS:
        raise NotInTimeError(note)
    return note


def api_server_lost(chaos: Chaos) -> str:
    """Every connection of the operator breaks but those for its Lease (Kubernetes, too, serves those when it serves
    nothing else), so that the leader stays; and Redis is emptied, so that there is everything to list. A kube-apiserver
    that is killed is asked for hardly any list: without a lease no watcher leads, and watches go on where they were.

    Lists are told apart by resource and by watcher, each of which has a URL of its own: at most one in 30 s. No watcher
    dies or loses its lease here, so each has one term at most."""
    system, began = chaos.system, time.monotonic()
    system.proxy.faults = Faults(dead=True)
    system.proxy.break_watches()
    system.redis_command("FLUSHALL")
    time.sleep(DEAD_SECONDS)
    lists = watchers_lists(system, began)
    system.proxy.faults = Faults()
    gap = closest_lists(lists)
    note = (
        f"for {DEAD_SECONDS:.0f} s no connection but for the lease, and an empty Redis: {len(lists)} lists of "
        f"{len({one.resource for one in lists})} resources, of one of them {gap:.0f} s apart at least"
    )
    # Each kind is listed at once and again after 30 s: were it none, or one, nothing would have been looked at.
    if not BETWEEN_LISTS_SECONDS - ON_THE_WAY_SECONDS < gap < DEAD_SECONDS:
        raise NotInTimeError(note)
    return note


def watchers_lists(system: System, since: float) -> list[Listed]:
    return [one for one in system.proxy.lists if one.at > since and one.process in WATCHERS]


def closest_lists(lists: Iterable[Listed]) -> float:
    """Seconds between two of one resource by one process, where they are fewest; infinite when there are no two."""
    last: dict[tuple[str, str], float] = {}
    closest = math.inf
    for one in sorted(lists, key=lambda one: one.at):
        which = (one.process, one.resource)
        closest = min(closest, one.at - last.get(which, -math.inf))
        last[which] = one.at
    return closest


def leaders_come_and_go(chaos: Chaos) -> str:
    """The leading watcher is killed, or sleeps past its lease and wakes up; beats die besides. Each time there is a
    standby: one that has only just begun to look at the lease must wait for the whole of it."""
    count, took = chaos.times(8), []
    for number in range(count):
        chaos.system.kill(chaos.rng.choice(BEATS))
        chaos.system.until("one watcher leads and the other stands by", lambda: _has_standby(chaos.system), 60)
        leader, pid = chaos.system.leader()
        if number % 2:
            chaos.system.pause(leader)
        else:
            chaos.system.kill(leader)
        took.append(_taken_over(chaos, leader, pid))
        chaos.rest(0.5, 2)
        chaos.system.go_on(leader)
        chaos.rest(1, 3)
    note = (
        f"the leader killed or stopped {count} times; the next led after {max(took):.1f} s at most "
        f"(lease of {chaos.system.settings.lease_duration_seconds:.0f} s, namespace {rbac.NAMESPACE})"
    )
    if max(took) > TAKE_OVER_SECONDS:
        raise NotInTimeError(note)
    return note


def _has_standby(system: System) -> bool:
    leader, _ = system.leader()
    return all(name == leader or system.said(name, "standing by") for name in WATCHERS)


def _taken_over(chaos: Chaos, leader: str, pid: int) -> float:
    what = f"another watcher than {leader}, process {pid}, leads"
    return chaos.system.until(what, lambda: chaos.system.leader()[1] != pid, 60)


DISTURBANCES: Mapping[str, Callable[[Chaos], str]] = {
    "nothing": nothing,
    "processes killed": kills,
    "workers asleep": pauses,
    "redis wiped": redis_wiped,
    "redis restarted": redis_restarted,
    "redis rolled back": redis_rolled_back,
    "redis read-only": redis_read_only,
    "redis out of memory": redis_full,
    **{f"redis away: {how}": partial(redis_away, how) for how in OUTAGES},
    "api server dies": api_server_dies,
    "api server freezes": api_server_freezes,
    "api server slow": api_server_slow,
    "api server refuses (429)": api_server_refuses,
    "answers lost": answers_are_lost,
    "watches broken": watches_broken,
    "api server lost": api_server_lost,
    "leaders come and go": leaders_come_and_go,
}
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    # A batch Job makes no pod any more once a trainer has succeeded. Whoever learns only a minute later that a job was
    # scaled, while its trainers went on and are done by then, comes too late; that is right, and no other end of an
    # operator.
    "watches broken": ("edl-scales",),
    **{f"redis away: {how}": ("edl-scales",) for how in OUTAGES},
    # So is Kubernetes' own controller of batch Jobs: after four deaths of an API server it looks again only after 70 to
    # 95 s.
    "api server dies": ("edl-scales", "edl-replaces"),
}
"""Way -> scenarios that are not played in it."""
