"""Leader election by a coordination.k8s.io Lease, as client-go does it.

`Election` is PURE: from a Lease, monotonic time and wall-clock time it makes the Lease to write. The times of other
machines are shown to people and never compared: a holder counts as dead if its Lease has not *changed* for the lease
duration, by the clock of this machine. `Elector` is the shell around it. Leadership is a hint only: every write of the
projection carries the fencing token, and the store refuses an older one.

The token must grow with each change of leader, also if somebody deletes the Lease or a clock is wrong: it is the larger
of the last token (kept in the Lease) + 1 and the time in milliseconds. If both happen at once (the Lease was deleted,
and its last holder's clock was ahead), the store refuses the token. Then the next one leaps ahead, twice as far each
time.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from tjworker.api.resources import LEASES
from tjworker.base import Conflict, Invalid, JsonDict, OperatorError, Terminal, Transient
from tjworker.kube.client import KubeClient
from tjworker.scope import PART_OF, Scope, scope_of_lease

log = structlog.get_logger(__name__)

TOKEN = "elasticdeeplearning.ai/fencing-token"  # noqa: S105  an annotation's name
RETRY_SECONDS = 2.0
FIRST_LEAP = 60_000
"""One minute in milliseconds, the unit of tokens."""
LONGEST_LEAP = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Bid:
    """A whole Lease to write, with `create` if there is none. `token` is the fencing token once the write succeeds."""

    lease: JsonDict
    token: int
    create: bool = False


class Election:
    """One candidate's view of one Lease."""

    def __init__(
        self,
        identity: str,
        namespace: str,
        name: str,
        *,
        lease_duration_seconds: float,
        scope: Scope = Scope(),  # noqa: B008  frozen
    ) -> None:
        """`scope`: the namespaces that the leader serves. The Lease shows them."""
        self._scope = scope
        self.identity = identity
        self.namespace = namespace
        self.name = name
        self.duration_seconds = lease_duration_seconds
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._free_at = 0.0
        # The least token of the next bid; 0 unless the store has fenced this candidate.
        self._floor = 0
        self._leap = FIRST_LEAP

    def leap_ahead(self, token: int) -> None:
        """Raise the next token: the store refused this one, although this candidate holds the Lease."""
        # Twice as far each time: nothing says how far ahead the last holder's clock was.
        self._floor = max(self._floor, token) + self._leap
        self._leap = min(LONGEST_LEAP, self._leap * 2)

    def describe_other_scope(self, lease: JsonDict | None) -> str:
        """For the log: the namespaces that the leader serves, if this candidate serves others; else ''."""
        served = scope_of_lease((((lease or {}).get("metadata") or {}).get("annotations")) or {})
        if served is None or served == self._scope:
            return ""
        # The settings have changed. Or two operators share a Lease by mistake, and the second one waits for ever.
        return f", which serves {served}; this one serves {self._scope} (each operator needs a Lease of its own)"

    def holder(self, lease: JsonDict | None) -> str:
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    def bid(self, lease: JsonDict | None, now: float, wall: datetime) -> Bid | None:
        """The Lease that makes this candidate the leader; None while another one may lead."""
        if lease is None:
            token = max(self._floor, _milliseconds(wall))
            return Bid(self._build_lease({}, token, transitions=0, acquired=wall, renewed=wall), token, create=True)
        self._note_change(lease, now)
        spec = lease.get("spec") or {}
        holder = self.holder(lease)
        # From when this candidate first saw the Lease as it is, not from `renewTime`: that is the holder's clock.
        self._free_at = self._seen_at + self._duration_of(spec)
        if holder not in ("", self.identity) and now < self._free_at:
            return None
        # Larger than the last token also if this clock is behind the last holder's.
        token = max(_token_of(lease) + 1, self._floor, _milliseconds(wall))
        transitions = int(spec.get("leaseTransitions") or 0) + (holder != self.identity)
        return Bid(
            self._build_lease(lease["metadata"], token, transitions=transitions, acquired=wall, renewed=wall), token
        )

    def wait_seconds(self, now: float, most: float) -> float:
        """How long a standby waits before it looks again: at most until the Lease that it has seen runs out."""
        left = self._free_at - now
        return min(most, left) if left > 0 else most

    def renewal(self, lease: JsonDict | None, now: float, wall: datetime, token: int) -> Bid | None:
        """The Lease that renews this leadership; None if another watcher holds it, or another term of this one."""
        renewed = self._same_term(lease, wall, token)
        if lease is None or renewed is None:
            return None
        self._note_change(lease, now)
        renewed["spec"]["acquireTime"] = lease["spec"].get("acquireTime")
        return Bid(renewed, token)

    def release(self, lease: JsonDict | None, wall: datetime, token: int) -> JsonDict | None:
        """The Lease without a holder, so that a standby need not wait; None if this term does not hold it."""
        given = self._same_term(lease, wall, token)
        if given is not None:
            # As client-go has it: the API server refuses a duration of 0.
            given["spec"].update(holderIdentity="", leaseDurationSeconds=1)
        return given

    def _same_term(self, lease: JsonDict | None, wall: datetime, token: int) -> JsonDict | None:
        # The token, too: the same process may have lost the Lease and won it again.
        if lease is None or self.holder(lease) != self.identity or _token_of(lease) != token:
            return None
        transitions = int(lease["spec"].get("leaseTransitions") or 0)
        return self._build_lease(lease["metadata"], token, transitions=transitions, renewed=wall)

    def _note_change(self, lease: JsonDict, now: float) -> None:
        spec = lease.get("spec") or {}
        seen = (
            spec.get("holderIdentity"),
            spec.get("renewTime"),
            spec.get("leaseTransitions"),
            (lease.get("metadata") or {}).get("resourceVersion"),
        )
        if seen != self._seen:
            self._seen, self._seen_at = seen, now

    def _duration_of(self, spec: JsonDict) -> float:
        """The longer one of the holder's lease duration and this candidate's: their settings may differ."""
        return max(self.duration_seconds, float(spec.get("leaseDurationSeconds") or 0))

    def _build_lease(
        self, meta: JsonDict, token: int, *, transitions: int, renewed: datetime, acquired: datetime | None = None
    ) -> JsonDict:
        metadata: JsonDict = {
            "name": self.name,
            "namespace": self.namespace,
            "annotations": {**(meta.get("annotations") or {}), **self._scope.annotations(), TOKEN: str(token)},
            "labels": {**(meta.get("labels") or {}), **PART_OF},
        }
        # With the version that was read: of two candidates that bid at once, the API server refuses the second.
        metadata.update({name: meta[name] for name in ("resourceVersion", "uid") if name in meta})
        spec: JsonDict = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.duration_seconds)),
            "renewTime": _format_time(renewed),
            "leaseTransitions": transitions,
        }
        if acquired is not None:
            spec["acquireTime"] = _format_time(acquired)
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


class Tenure:
    """One leadership and its renewals. Does not wait itself."""

    def __init__(
        self, renew: Callable[[], bool], now: Callable[[], float], *, renew_seconds: float, deadline_seconds: float
    ) -> None:
        """`renew` returns False if another watcher holds the Lease, and raises OperatorError if it cannot be read."""
        self._renew = renew
        self._now = now
        self._renew_seconds = renew_seconds
        self._deadline_seconds = deadline_seconds
        self._renewed_at = now()
        self.wait_seconds = renew_seconds
        """Until the next `renew`."""

    def renew(self) -> str:
        """Why the leadership is over; '' while it lasts."""
        try:
            if not self._renew():
                return "another watcher has taken the lease"
        except OperatorError as error:
            # The leadership lasts on for a while: an API server that restarts must not cost every operator its leader.
            self.wait_seconds = min(RETRY_SECONDS, self._renew_seconds)
            late = self._now() - self._renewed_at > self._deadline_seconds
            return f"the lease could not be renewed in time: {error.message}" if late else ""
        self._renewed_at, self.wait_seconds = self._now(), self._renew_seconds
        return ""


class Elector:
    """Acquire, keep and give back the Lease. `stopped` ends every wait."""

    def __init__(
        self,
        api: KubeClient,
        election: Election,
        *,
        stopped: threading.Event,
        renew_seconds: float,
        now: Callable[[], float],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self._election = election
        self._where = (election.namespace, election.name)
        self._stopped = stopped
        self._renew_seconds = renew_seconds
        self._now = now
        self._wall = wall
        self._rng = rng or random.Random()
        self._logged = ""

    def acquire(self) -> int | None:
        """Wait until this watcher leads. Returns the fencing token; None if the process stops."""
        while not self._stopped.is_set():
            token = self.try_acquire()
            if token is not None:
                return token
            self._stopped.wait(self.wait_seconds())
        return None

    def wait_seconds(self) -> float:
        """How long a standby waits before it looks again."""
        return self._election.wait_seconds(self._now(), RETRY_SECONDS * self._rng.uniform(0.8, 1.2))

    def try_acquire(self) -> int | None:
        try:
            lease = self._api.get(LEASES, *self._where)
            bid = self._election.bid(lease, self._now(), self._wall())
            if bid is None:
                leader = f"{self._election.holder(lease)}{self._election.describe_other_scope(lease)}"
                self._log_once(f"standing by, the leader is {leader}")
                return None
            if bid.create:
                self._api.create(LEASES, self._where[0], bid.lease)
            else:
                self._api.update(LEASES, *self._where, bid.lease)
        except Conflict:
            # Another candidate was faster.
            return None
        except (Transient, Terminal, Invalid) as error:
            self._log_once(f"cannot take the lease, trying again: {error.message}")
            return None
        self._log_once(f"leading as {self._election.identity}, fencing token {bid.token}")
        return bid.token

    def keep(self, token: int, over: threading.Event) -> str:
        """Renew until the leadership is lost, `over` is set or the process stops. Returns why it ended."""
        tenure = self.tenure(token)
        while True:
            if over.wait(tenure.wait_seconds):
                return "over"
            if self._stopped.is_set():
                return "stopped"
            if why := tenure.renew():
                return why

    def tenure(self, token: int) -> Tenure:
        """A leadership that has just been won."""
        # Give up well before another candidate may take over: after two thirds of the lease, like client-go.
        return Tenure(
            lambda: self._renew(token),
            self._now,
            renew_seconds=self._renew_seconds,
            deadline_seconds=self._election.duration_seconds * 2 / 3,
        )

    def _renew(self, token: int) -> bool:
        lease = self._api.get(LEASES, *self._where)
        if lease is None:
            return False
        bid = self._election.renewal(lease, self._now(), self._wall(), token)
        if bid is None:
            return False
        self._api.update(LEASES, *self._where, bid.lease)
        return True

    def release(self, token: int) -> None:
        """Give the Lease back. Best effort: otherwise the standby waits until it runs out."""
        try:
            given = self._election.release(self._api.get(LEASES, *self._where), self._wall(), token)
            if given is not None:
                self._api.update(LEASES, *self._where, given)
                self._log_once("gave the lease back")
        except OperatorError as error:
            self._log_once(f"could not give the lease back: {error.message}")

    def leap_ahead(self, token: int) -> None:
        self._election.leap_ahead(token)

    def _log_once(self, state: str) -> None:
        """Log each state once, however often it is repeated."""
        if state != self._logged:
            self._logged = state
            log.info("leader election: " + state)


def _token_of(lease: JsonDict) -> int:
    text = str(((lease.get("metadata") or {}).get("annotations") or {}).get(TOKEN) or "0")
    # A user may have edited the annotation. A longer number is no time in milliseconds.
    return int(text) if text.isdigit() and len(text) <= 16 else 0


def _milliseconds(wall: datetime) -> int:
    return int(wall.timestamp() * 1000)


def _format_time(wall: datetime) -> str:
    return wall.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
