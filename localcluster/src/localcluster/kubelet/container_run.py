"""One container of a pod over all its runs: what state it is in, when it may start again, how it is stopped.

Decides by what `containers.Container.look` sees; starts nothing itself (`pod_run.py` does). Follows the kubelet: the
first restart comes at once, then after 10 s, doubling up to 5 minutes, forgotten after a run of 10 minutes.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.kubelet.containers import Container, Look, list_attempts
from localcluster.kubelet.logs import LogOptions, read
from localcluster.kubelet.probes import Prober
from localcluster.kubelet.status import container_status, terminated_state, waiting_state
from localcluster.objects import timestamp
from localcluster.wire import Json

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_MAX_SECONDS = 300.0
BACKOFF_FORGET_SECONDS = 600.0
UNKNOWN_MESSAGE = "The container could not be located when the pod was terminated"
MESSAGE_BYTES = 2048


@dataclass(slots=True)
class ContainerRun:
    spec: Json
    folder: Path
    init: bool = False
    sidecar: bool = False
    attempt: int = -1
    container: Container | None = None
    look: Look | None = None
    last: Json | None = None
    prober: Prober | None = None
    backoff_seconds: float = 0.0
    starts_at: float = 0.0
    held: tuple[str, str] = ("ContainerCreating", "")
    """Reason and message while it waits."""
    post_start: str = ""
    pre_stop: str = ""
    kill_at: float | None = None
    """Set once it is being stopped."""
    term_sent: bool = False
    start_reported: bool = False
    seen_ended: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def path(self) -> Path:
        return self.folder / str(max(0, self.attempt))

    def adopt(self) -> None:
        """Finds what an earlier kubelet left."""
        runs = list_attempts(self.folder)
        if not runs:
            return
        self.attempt = runs[-1]
        self.container = Container(self.path)
        self.start_reported = True
        self.refresh()
        # The status shows the run before the present one as lastState.
        if len(runs) > 1:
            before = Container(self.folder / str(runs[-2])).look()
            self.last = self._terminated_state(before, runs[-2])

    def refresh(self) -> None:
        if self.container is not None:
            self.look = self.container.look()

    @property
    def running(self) -> bool:
        return self.look is not None and self.look.kind in ("starting", "running")

    @property
    def up(self) -> bool:
        return self.look is not None and self.look.kind == "running"

    @property
    def ended(self) -> bool:
        """Also one that could not be started: containerd has it end with StartError."""
        return self.look is not None and self.look.kind in ("exited", "failed", "lost")

    @property
    def failed_to_start(self) -> bool:
        return self.look is not None and self.look.kind == "failed"

    @property
    def started(self) -> bool:
        """Up, past its startup probe and its postStart hook."""
        return self.up and (self.prober is None or self.prober.started) and self.post_start in ("", "done")

    @property
    def ready(self) -> bool:
        return self.started and self.kill_at is None and (self.prober is None or self.prober.ready)

    def begin(self, container: Container) -> None:
        """A new run has been started."""
        if self.ended and self.look is not None:
            self.last = self._terminated_state(self.look, self.attempt)
        self.attempt += 1
        self.container, self.look = container, None
        self.prober, self.post_start, self.pre_stop, self.kill_at = None, "", "", None
        self.term_sent = self.start_reported = self.seen_ended = False
        self.refresh()

    def next_folder(self) -> Path:
        return self.folder / str(self.attempt + 1)

    def note_end(self, now: float) -> None:
        """Once a run: when may the next one start?"""
        if self.seen_ended or self.look is None or not self.ended:
            return
        self.seen_ended = True
        if self.look.started and self.look.finished - self.look.started > BACKOFF_FORGET_SECONDS:
            self.backoff_seconds = 0.0
        # The wait counts from the end of the run, also after a kubelet that was down meanwhile.
        self.starts_at = (self.look.finished or now) + self.backoff_seconds
        self.backoff_seconds = min(BACKOFF_MAX_SECONDS, self.backoff_seconds * 2 or BACKOFF_FIRST_SECONDS)

    def exit_code(self) -> int:
        return self.look.exit_code if self.look is not None else 0

    def stop(self, now: float, grace_seconds: float) -> None:
        """SIGTERM to the whole group now, SIGKILL when the grace is over. Calling it again only ever shortens the
        grace."""
        if not self.running or self.container is None:
            return
        due = now + grace_seconds
        self.kill_at = due if self.kill_at is None else min(self.kill_at, due)
        # SIGTERM waits for the preStop hook. A container that is starting gets it at the next look.
        if self.pre_stop != "running" and not self.term_sent and self.up:
            self.term_sent = True
            self.container.signal(signal.SIGTERM)
        if now >= self.kill_at:
            self.container.signal(signal.SIGKILL)

    def status(self, pod_waiting: str, *, restarting: bool) -> Json:
        """`pod_waiting`: the reason while it waits for its turn. `restarting`: it will run again, so it shows as
        waiting."""
        restarts = max(0, self.attempt)
        identity = self._container_id(self.attempt) if self.attempt >= 0 else ""
        if self.look is None or self.look.kind == "starting":
            reason, message = self.held if self.look is None else ("ContainerCreating", "")
            state = waiting_state(pod_waiting if reason == "ContainerCreating" else reason, message)
            return container_status(self.spec, state, ready=False, restarts=restarts, last=self.last)
        if self.look.kind == "running":
            made = container_status(
                self.spec,
                {"running": {"startedAt": timestamp(self.look.started)}},
                ready=self.ready,
                restarts=restarts,
                last=self.last,
                container_id=identity,
            )
            return {**made, "started": self.started}
        ended = self._terminated_state(self.look, self.attempt)
        if restarting:
            return container_status(
                self.spec, waiting_state(*self.held), ready=False, restarts=restarts, last=ended, container_id=identity
            )
        # `UpdatePodStatus` of the probe manager: an init container is ready once it has completed.
        ready = self.init and self.look.exit_code == 0
        return container_status(
            self.spec, {"terminated": ended}, ready=ready, restarts=restarts, last=self.last, container_id=identity
        )

    def _terminated_state(self, look: Look, attempt: int) -> Json:
        # `convertToAPIContainerStatuses` reports this for a container that the runtime has lost.
        if look.kind == "lost":
            return terminated_state(
                137, look.started, look.finished, reason="ContainerStatusUnknown", message=UNKNOWN_MESSAGE
            )
        # The runtime reports a container that could not start as one that ended: it counts as a restart.
        if look.kind == "failed":
            ended = terminated_state(
                look.exit_code, look.started, look.finished, reason="StartError", message=look.message
            )
            return {**ended, "containerID": self._container_id(attempt)}
        message = ""
        if look.exit_code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = read(self.folder / str(attempt), LogOptions(tail_lines=80))[-MESSAGE_BYTES:].decode(
                errors="replace"
            )
        return terminated_state(
            look.exit_code, look.started, look.finished, message=message, container_id=self._container_id(attempt)
        )

    def _container_id(self, attempt: int) -> str:
        return f"process://{self.folder.parent.parent.name}-{self.name}-{attempt}"
