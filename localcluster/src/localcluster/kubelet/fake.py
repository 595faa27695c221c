"""A kubelet that plays pods from a script: thousands of pods without one process.

A pod's script is a `Play`, from the pod's annotations (`play` lists them) or from a Python hook in tests. With no
annotation a pod runs for ever.

Attempts are counted by the pod's namespace and name, over restarts of the container and over successors of the pod. For
pods of a ReplicaSet or Job they are counted by the owner: the first n runs of its pods fail, under any name.

Each step writes a pod's status at most once. Running twice is safe. A restarted kubelet takes the start of a running
pod from its status, and counts attempts from 1 again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localcluster.client import Client
from localcluster.informer import Informers
from localcluster.kubelet.node import RENEW_SECONDS, Kubelet, NodeConfig
from localcluster.kubelet.play import FOREVER, PREFIX, Play, Script, play_of
from localcluster.kubelet.status import (
    compute_phase,
    container_status,
    is_sidecar,
    pod_status,
    terminated_state,
    waiting_state,
)
from localcluster.kubelet.troubles import SHUTTING_DOWN, Ending
from localcluster.objects import is_terminal, seconds_of, timestamp
from localcluster.wire import Json

BACKOFF_FIRST_SECONDS = 10.0
BACKOFF_MAX_SECONDS = 300.0
_KEEPERS = ("ReplicaSet", "Job")


@dataclass(slots=True)
class _Run:
    uid: str
    play: Play
    bound_at: float
    starts_at: float
    pod_ip: str
    restarts: int = 0
    started_at: float | None = None
    ends_at: float = FOREVER
    last: Json | None = None
    ended: Json | None = None
    not_ready: bool = False
    """Set by tests."""
    ending_since: float | None = None
    """The kubelet ends it on its own account."""
    asked_exit: str | None = None
    """The annotation `exit`, once it was obeyed."""


class FakeKubelet(Kubelet):
    """`script` may be set at any time. `exit` and `set_ready` steer one pod that runs."""

    name = "fake-kubelet"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        clock: Callable[[], float],
        nodes: Sequence[NodeConfig],
        *,
        script: Script | None = None,
        events: bool = True,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        super().__init__(client, informers, clock, nodes, renew_seconds=renew_seconds)
        self.script = script
        self._events = events
        self._runs: dict[str, _Run] = {}
        self._attempts: dict[str, int] = {}
        self._addresses = 0

    # --- for tests -------------------------------------------------------------------------------------------------

    def exit(self, namespace: str, name: str, exit_code: int, reason: str = "") -> None:
        """The pod's containers end now, with this code."""
        key = f"{namespace}/{name}"
        run = self._runs[key]
        run.ends_at = self.clock()
        run.play = Play(
            start_seconds=run.play.start_seconds, run_seconds=0.0, exit_code=exit_code, reason=reason or run.play.reason
        )
        self.enqueue(f"pod:{key}")

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Sets what the readiness probe reports from now on."""
        self._runs[f"{namespace}/{name}"].not_ready = not ready
        self.enqueue(f"pod:{namespace}/{name}")

    def log_of(self, namespace: str, name: str) -> str | None:
        run = self._runs.get(f"{namespace}/{name}")
        if run is None:
            pod = self.pods.get(f"{namespace}/{name}")
            return None if pod is None else play_of(pod, 1).log
        return run.play.log

    # --- playing ---------------------------------------------------------------------------------------------------

    def reconcile_pod(self, key: str, pod: Json | None, now: float) -> None:
        run = self._runs.get(key)
        if pod is None or (run is not None and run.uid != pod["metadata"]["uid"]):
            self._runs.pop(key, None)
            if pod is None:
                return
            run = None
        # An ended pod needs no grace: its deletion is confirmed at once.
        if is_terminal(pod):
            if "deletionTimestamp" in pod["metadata"]:
                self.confirm_deletion(pod)
            self._runs.pop(key, None)
            return
        if run is None:
            if self.turned_away(pod, now):
                return
            run = self._runs[key] = self._begin_run(key, pod, now)
        if "deletionTimestamp" in pod["metadata"]:
            self._terminate_pod(key, pod, run, now)
            return
        ending = self.ending(pod)
        evicted_at = run.ends_at if run.ends_at < FOREVER else now
        if ending is not None and (ending is SHUTTING_DOWN or (run.started_at is not None and now >= evicted_at)):
            self._end_by(ending, key, pod, run, now)
            return
        self._play_pod(key, pod, run, now)

    def _begin_run(self, key: str, pod: Json, now: float) -> _Run:
        status = pod.get("status") or {}
        play = self._next_play(key, pod)
        run = _Run(
            uid=pod["metadata"]["uid"],
            play=play,
            bound_at=now,
            starts_at=now + play.start_seconds,
            pod_ip=status.get("podIP") or self._allocate_address(pod),
        )
        had = (status.get("containerStatuses") or [{}])[0]
        running = (had.get("state") or {}).get("running")
        # After a restart, the kubelet resumes from the status.
        if running:
            run.started_at = seconds_of(running["startedAt"])
            run.ends_at = run.started_at + play.run_seconds
            run.restarts = had.get("restartCount", 0)
        return run

    def _next_play(self, key: str, pod: Json) -> Play:
        counted = f"{pod['metadata']['namespace']}/{owner}" if (owner := made_for(pod)) else key
        attempt = self._attempts[counted] = self._attempts.get(counted, 0) + 1
        scripted = self.script(pod, attempt) if self.script is not None else None
        return scripted if scripted is not None else play_of(pod, attempt)

    def _allocate_address(self, pod: Json) -> str:
        if pod["spec"].get("hostNetwork"):
            return self.configs[pod["spec"]["nodeName"]].address
        self._addresses += 1
        return f"10.{64 + (self._addresses >> 16) % 64}.{(self._addresses >> 8) & 255}.{self._addresses & 255}"

    def _play_pod(self, key: str, pod: Json, run: _Run, now: float) -> None:
        if run.started_at is None:
            blocked_until = run.bound_at + run.play.waiting_seconds if run.play.waiting_reason else 0.0
            begins = max(run.starts_at, blocked_until)
            if now < begins:
                self._write_pod(
                    pod,
                    run,
                    waiting_state(run.play.waiting_reason, run.play.waiting_message)
                    if run.play.waiting_reason
                    else _paused_state(run),
                    now,
                )
                if begins < FOREVER:
                    self.enqueue_at(f"pod:{key}", begins)
                return
            self._start_run(pod, run, now)
            if self.ending(pod) is not None:
                self.enqueue(f"pod:{key}")
        asked = (pod["metadata"].get("annotations") or {}).get(f"{PREFIX}exit")
        if asked is not None and asked != run.asked_exit:
            run.asked_exit, run.ends_at, run.play = asked, now, replace(run.play, exit_code=_exit_code(pod, asked))
        if now >= run.ends_at:
            self._end_run(key, pod, run, now)
            return
        started = run.started_at or 0.0
        ready_at = started + run.play.ready_seconds
        self._write_pod(
            pod, run, {"running": {"startedAt": timestamp(started)}}, now, ready=now >= ready_at and not run.not_ready
        )
        # An instant in the past would wake the pod for ever, and virtual time would not advance.
        due = min(run.ends_at, ready_at if now < ready_at else FOREVER)
        if due < FOREVER:
            self.enqueue_at(f"pod:{key}", due)

    def _start_run(self, pod: Json, run: _Run, now: float) -> None:
        run.started_at = now
        run.ends_at = now + run.play.run_seconds
        if self._events:
            recorder = self.recorders[pod["spec"]["nodeName"]]
            for container in pod["spec"]["containers"]:
                path = f"spec.containers{{{container['name']}}}"
                recorder.normal(
                    pod,
                    "Pulled",
                    f'Container image "{container.get("image", "")}" already present on machine',
                    field_path=path,
                )
                recorder.normal(pod, "Created", "Container created", field_path=path)
                recorder.normal(pod, "Started", "Container started", field_path=path)

    def _end_run(self, key: str, pod: Json, run: _Run, now: float) -> None:
        code = run.play.exit_code
        started = run.started_at if run.started_at is not None else now
        ended = terminated_state(
            code, started, now, reason=run.play.reason, container_id=_container_id(run, pod["spec"]["containers"][0])
        )
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self._write_pod(pod, run, {"terminated": ended}, now)
            return
        run.last = ended
        run.restarts += 1
        run.play = self._next_play(key, pod)
        delay = (
            min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(run.restarts - 2, 20))
            if run.restarts > 1
            else 0.0
        )
        run.started_at, run.ends_at, run.starts_at = None, FOREVER, now + max(delay, run.play.start_seconds)
        self._play_pod(key, pod, run, now)

    def _terminate_pod(self, key: str, pod: Json, run: _Run, now: float) -> None:
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds", 0)
        if self._stop_when_due(key, pod, run, seconds_of(meta["deletionTimestamp"]) - grace, grace, now):
            self._runs.pop(key, None)
            self.confirm_deletion(pod)

    def _end_by(self, ending: Ending, key: str, pod: Json, run: _Run, now: float) -> None:
        if run.ending_since is None:
            run.ending_since = now
        own = pod["spec"].get("terminationGracePeriodSeconds", 30)
        grace = own if ending.grace_seconds is None else ending.grace_seconds
        if self._stop_when_due(key, pod, run, run.ending_since, grace, now, ending):
            self.recorders[pod["spec"]["nodeName"]].warning(pod, ending.reason, ending.message)

    def _stop_when_due(
        self, key: str, pod: Json, run: _Run, asked: float, grace: float, now: float, ending: Ending | None = None
    ) -> bool:
        """Ends the containers once their time is up and writes the last status; returns whether that is done."""
        goes = now if run.started_at is None else asked + min(run.play.terminate_seconds, grace)
        if now < goes:
            self.enqueue_at(f"pod:{key}", goes)
            return False
        state = _paused_state(run)
        if run.started_at is not None:
            code = run.play.terminate_exit_code
            code = (137 if run.play.terminate_seconds > grace else 143) if code is None else code
            container_id = _container_id(run, pod["spec"]["containers"][0])
            state = {"terminated": terminated_state(code, run.started_at, now, container_id=container_id)}
        self._write_pod(pod, run, state, now, final=True, ending=ending)
        return True

    def _write_pod(
        self,
        pod: Json,
        run: _Run,
        state: Json,
        now: float,
        *,
        ready: bool = False,
        final: bool = False,
        ending: Ending | None = None,
    ) -> None:
        spec = pod["spec"]
        host_ip = self.configs[spec["nodeName"]].address
        containers = [
            container_status(
                c,
                _own(state, run, c),
                ready=ready,
                restarts=run.restarts,
                last=run.last,
                container_id=_container_id(run, c) if "waiting" not in state else "",
            )
            for c in spec["containers"]
        ]
        inits = [
            container_status(
                c,
                state if is_sidecar(c) or "waiting" in state else _done(run, now),
                ready="waiting" not in state,
                restarts=0,
            )
            for c in spec.get("initContainers") or ()
        ]
        new_phase = compute_phase(spec, containers, inits, final=final)
        status = pod_status(pod, new_phase, containers, inits, now, host_ip=host_ip, pod_ip=run.pod_ip)
        self.write_pod_status(pod, status if ending is None else ending.onto(status, now))


def _exit_code(pod: Json, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(
            f"annotation {PREFIX}exit={text!r} of pod {pod['metadata']['name']} is no exit code"
        ) from error


def _paused_state(run: _Run) -> Json:
    if run.restarts > 1:
        return waiting_state("CrashLoopBackOff", "back-off restarting failed container")
    return waiting_state("ContainerCreating")


def _own(state: Json, run: _Run, container: Json) -> Json:
    ended = state.get("terminated")
    return {"terminated": {**ended, "containerID": _container_id(run, container)}} if ended else state


def _done(run: _Run, now: float) -> Json:
    started = run.started_at if run.started_at is not None else now
    return {"terminated": terminated_state(0, started, started)}


def _container_id(run: _Run, container: Json) -> str:
    return f"fake://{run.uid}-{container['name']}-{run.restarts}"


def made_for(pod: Json) -> str:
    """What the pods of one ReplicaSet or Job (of an Indexed Job, of one index) have in common; '' for any other."""
    metadata = pod["metadata"]
    if made_up := metadata.get("generateName"):
        return str(made_up)
    owners = (o["name"] for o in metadata.get("ownerReferences") or () if o.get("controller") and o["kind"] in _KEEPERS)
    return next((f"{name}-" for name in owners), "")
