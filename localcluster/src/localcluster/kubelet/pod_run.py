"""One pod on this machine: its folder, its containers in their order, its end. The kubelet calls `sync` as often as it
likes.

`sync` looks, does what is due (start, probe, stop, kill), and says what the pod's status is and when to look again. It
never waits and never talks to the API server but through the callbacks it is given. Safe to run twice, and by a kubelet
that has just restarted: what is on disk counts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from localcluster.kubelet import pod_parts
from localcluster.kubelet.container_run import ContainerRun
from localcluster.kubelet.container_runner import MARK
from localcluster.kubelet.containers import Container
from localcluster.kubelet.env import ConfigError, PodFacts, build_environment, command_of
from localcluster.kubelet.hosts import hostname_of
from localcluster.kubelet.pod_parts import LOOPBACK, container_path
from localcluster.kubelet.probes import Prober, Result
from localcluster.kubelet.status import compute_phase, is_sidecar, pod_status
from localcluster.kubelet.troubles import Ending
from localcluster.kubelet.volumes import (
    MountError,
    binds_of,
    prepare_volumes,
    read_only_volumes,
    rewrite_unmounted,
    token_sources,
    write_tokens,
)
from localcluster.objects import seconds_of
from localcluster.recorder import Recorder
from localcluster.wire import Json

log = logging.getLogger("localcluster")

RETRY_MOUNT_SECONDS = 2.0


class PodRun:
    def __init__(self, host: pod_parts.Host, key: str, uid: str, node: str, pod_ip: str) -> None:
        self.host = host
        self.key = key
        self.uid = uid
        self.node = node
        self.pod_ip = pod_ip
        self.folder = host.folder / "pods" / uid
        self.containers: list[ContainerRun] = []
        self.stopping_since: float | None = None
        self.deadline_passed = False
        self.ending: Ending | None = None
        """The kubelet ends it on its own account."""
        self._volumes: dict[str, Path] | None = None
        self._tokens_due: float | None = None
        """When they are renewed; None: not written by this kubelet, or the pod wants none."""

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        record: Json = {"key": self.key, "uid": self.uid, "node": self.node, "pod_ip": self.pod_ip}
        record["ending"] = self.ending and asdict(self.ending)
        (self.folder / "pod.json").write_bytes(orjson.dumps(record))

    @staticmethod
    def load(host: pod_parts.Host, folder: Path) -> PodRun | None:
        """A pod that an earlier kubelet left; its containers are known once `bind` has the spec, or by their
        folders."""
        try:
            record = orjson.loads((folder / "pod.json").read_bytes())
        # The kubelet died while it made the folder: no container of it has run.
        except (OSError, orjson.JSONDecodeError):
            return None
        run = PodRun(host, record["key"], record["uid"], record["node"], record["pod_ip"])
        run.ending = Ending(**record["ending"]) if record.get("ending") else None
        for each in sorted((folder / "containers").glob("*")):
            container = ContainerRun({"name": each.name}, each)
            container.adopt()
            run.containers.append(container)
            run._watch(container)
        return run

    def bind(self, pod: Json) -> None:
        """Takes the spec in; containers found on disk are kept."""
        found = {c.name: c for c in self.containers}
        spec = pod["spec"]
        bound: list[ContainerRun] = []
        for init, part in ((True, spec.get("initContainers") or ()), (False, spec["containers"])):
            for each in part:
                run = found.pop(each["name"], None) or ContainerRun(each, self.folder / "containers" / each["name"])
                run.spec, run.init, run.sidecar = each, init, init and is_sidecar(each)
                bound.append(run)
        self.host.hosts.keep(pod, self.pod_ip, self.folder / "hosts")
        # One assignment, since the log server reads the list from another thread.
        self.containers = bound

    def remove(self) -> None:
        self.host.hosts.forget(self.uid)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def alive(self) -> bool:
        return any(c.running for c in self.containers)

    def refresh(self) -> None:
        for container in self.containers:
            container.refresh()

    def kill(self) -> None:
        for container in self.containers:
            if container.container is not None and container.running:
                container.container.kill_all()

    def take_result(self, result: Result, now: float, recorder: Recorder, pod: Json) -> None:
        for container in self.containers:
            # A late answer may belong to an earlier run of the container.
            if container.name != result.container or f"{container.name}/{container.attempt}" != result.key:
                continue
            if result.kind in ("postStart", "preStop"):
                if result.kind == "postStart":
                    container.post_start = "done" if result.success else "failed"
                else:
                    container.pre_stop = "done"
                if not result.success:
                    name = "PostStartHook" if result.kind == "postStart" else "PreStopHook"
                    recorder.warning(pod, f"Failed{name}", f"{name} failed", field_path=container_path(container))
            elif container.prober is not None:
                container.prober.take(result.kind, result.success, now)
                if not result.success:
                    recorder.warning(
                        pod,
                        "Unhealthy",
                        f"{result.kind.capitalize()} probe failed: {result.output}",
                        field_path=container_path(container),
                    )

    def sync(self, pod: Json, now: float, facts: PodFacts, recorder: Recorder) -> tuple[Json, float | None]:
        """The status, and when to look again (None: when something happens)."""
        self.refresh()
        dues: list[float] = []
        for container in self.containers:
            self._note_changes(pod, container, now, recorder)
            dues += self._look_after(pod, container, now, recorder)
        deadline = pod["spec"].get("activeDeadlineSeconds")
        started = (pod.get("status") or {}).get("startTime")
        if deadline is not None and started and not self.deadline_passed:
            due = seconds_of(started) + deadline
            self.deadline_passed = now >= due
            dues.append(due)
        if "deletionTimestamp" in pod["metadata"] or self.deadline_passed or self.ending:
            dues += self._stop_all(pod, now, recorder)
        else:
            dues += self._start_due(pod, now, facts, recorder)
            dues += self._renew_tokens(pod, now, recorder)
        self.refresh()
        future = [d for d in dues if d > now]
        return self._build_status(pod, now, facts), min(future, default=None)

    def _renew_tokens(self, pod: Json, now: float, recorder: Recorder) -> list[float]:
        """Also those that an earlier kubelet has written: nothing says how old they are."""
        if not self.alive or not token_sources(pod):
            return []
        if self._tokens_due is None or now >= self._tokens_due:
            try:
                self._tokens_due = write_tokens(pod, self.folder / "volumes", now, self.host.request_token)
            except MountError as error:
                recorder.warning(pod, "FailedMount", str(error))
                self._tokens_due = now + RETRY_MOUNT_SECONDS
        return [] if self._tokens_due is None else [self._tokens_due]

    def _note_changes(self, pod: Json, container: ContainerRun, now: float, recorder: Recorder) -> None:
        """What has newly happened to a container."""
        if container.up and not container.start_reported:
            container.start_reported = True
            recorder.normal(pod, "Started", "Container started", field_path=container_path(container))
            hook = (container.spec.get("lifecycle") or {}).get("postStart")
            if hook:
                container.post_start = "running"
                self._submit_action(container, "postStart", hook, 300.0)
        if container.up and container.prober is None and container.look is not None:
            container.prober = Prober.of(
                f"{container.name}/{container.attempt}", container.spec, container.look.started
            )
        was_noted = container.seen_ended
        container.note_end(now)
        if container.seen_ended and not was_noted and container.failed_to_start and container.look is not None:
            container.held = ("RunContainerError", container.look.message)
            recorder.warning(pod, "Failed", f"Error: {container.look.message}", field_path=container_path(container))

    def _look_after(self, pod: Json, container: ContainerRun, now: float, recorder: Recorder) -> list[float]:
        """Probes, hooks and the stopping of one container."""
        if not container.running:
            return []
        if container.kill_at is not None:
            container.stop(now, container.kill_at - now)
            return [container.kill_at]
        prober = container.prober
        if prober is None:
            return []
        reason = f"failed {prober.must_restart} probe" if prober.must_restart else ""
        if container.post_start == "failed":
            reason = "FailedPostStartHook"
        if reason:
            what = f"Container {container.name} {reason}, will be restarted"
            self._stop(pod, container, now, pod_parts.grace_seconds(pod, prober), recorder, what)
            return [container.kill_at] if container.kill_at is not None else []
        for kind in prober.due(now):
            probe = prober.probes[kind]
            prober.states[kind].running = True
            self._submit_action(container, kind, probe, float(probe.get("timeoutSeconds", 1)))
        due = prober.next_due()
        return [due] if due is not None else []

    def _submit_action(self, container: ContainerRun, kind: str, action: Json, timeout_seconds: float) -> None:
        self.host.actions.submit(
            self.key,
            container.spec,
            f"{container.name}/{container.attempt}",
            kind,
            action,
            address=self.pod_ip,
            folder=container.path,
            timeout_seconds=timeout_seconds,
        )

    # --- stopping --------------------------------------------------------------------------------------------------

    def _stop_all(self, pod: Json, now: float, recorder: Recorder) -> list[float]:
        grace = pod["metadata"].get("deletionGracePeriodSeconds", self.ending and self.ending.grace_seconds)
        if grace is None:
            grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        if self.stopping_since is None:
            self.stopping_since = now
        left = max(0.0, self.stopping_since + grace - now)
        # `newTerminationOrdering`: sidecars serve the main containers until these have ended.
        main = [c for c in self.containers if not c.sidecar and c.running]
        for container in main or [c for c in self.containers if c.running]:
            self._stop(pod, container, now, left, recorder, f"Stopping container {container.name}")
        return [c.kill_at for c in self.containers if c.running and c.kill_at is not None]

    def _stop(self, pod: Json, container: ContainerRun, now: float, grace: float, recorder: Recorder, why: str) -> None:
        if container.kill_at is None:
            recorder.normal(pod, "Killing", why, field_path=container_path(container))
            hook = (container.spec.get("lifecycle") or {}).get("preStop")
            # The hook runs within the grace period (`executePreStopHook`); SIGTERM waits for it.
            if hook and not container.pre_stop and grace > 0 and container.up:
                container.pre_stop = "running"
                self._submit_action(container, "preStop", hook, grace)
        container.stop(now, grace)

    def _runs_again(self, pod: Json, container: ContainerRun) -> bool:
        """True if the restart policy lets a container that has ended run again."""
        policy = pod["spec"].get("restartPolicy", "Always")
        # A sidecar restarts whatever the pod's policy is, until the last main container has ended.
        if container.sidecar:
            return not self._mains_over(pod)
        if container.init:
            return policy != "Never" and container.exit_code() != 0
        return policy == "Always" or (policy == "OnFailure" and container.exit_code() != 0)

    def _mains_over(self, pod: Json) -> bool:
        """True when only sidecars are left to run."""
        return all(c.ended and not self._runs_again(pod, c) for c in self.containers if not c.init)

    def _start_due(self, pod: Json, now: float, facts: PodFacts, recorder: Recorder) -> list[float]:
        dues: list[float] = []
        mains_over = self._mains_over(pod)
        mains_begun = any(c.attempt >= 0 for c in self.containers if not c.init)
        for container in self.containers:
            # `computeInitContainerActions`: a main container that was started proves that the pod is initialized.
            if container.init and mains_begun and not container.sidecar:
                continue
            if container.sidecar and mains_over:
                self._stop(
                    pod,
                    container,
                    now,
                    pod_parts.grace_seconds(pod, None),
                    recorder,
                    f"Stopping container {container.name}",
                )
                continue
            dues += self._start_one(pod, container, now, facts, recorder)
            # Each init container waits for the one before it; a sidecar counts as done once it has started.
            if container.init and not mains_begun and not pod_parts.init_done(container):
                break
        return dues

    def _start_one(
        self, pod: Json, container: ContainerRun, now: float, facts: PodFacts, recorder: Recorder
    ) -> list[float]:
        if container.running or (container.ended and not self._runs_again(pod, container)):
            return []
        if now < container.starts_at:
            if container.ended and container.held[0] != "CrashLoopBackOff":
                ended = container.look.finished if container.look else now
                delay = pod_parts.go_duration(container.starts_at - ended)
                name = f"{pod['metadata']['name']}_{pod['metadata']['namespace']}({self.uid})"
                container.held = (
                    "CrashLoopBackOff",
                    f"back-off {delay} restarting failed container={container.name} pod={name}",
                )
                recorder.warning(
                    pod,
                    "BackOff",
                    f"Back-off restarting failed container {container.name} in pod {name}",
                    field_path=container_path(container),
                )
            return [container.starts_at]
        try:
            spec = self._build_spec(pod, container, now, facts, recorder)
        except MountError as error:
            container.starts_at = now + RETRY_MOUNT_SECONDS
            recorder.warning(pod, "FailedMount", str(error))
            return [container.starts_at]
        except ConfigError as error:
            reason = "CreateContainerConfigError" if container.spec.get("command") else "CreateContainerError"
            container.held = (reason, str(error))
            container.starts_at = now + pod_parts.BACKOFF_NAME.get(reason, 10.0)
            recorder.warning(pod, "Failed", f"Error: {error}", field_path=container_path(container))
            return [container.starts_at]
        self._launch(pod, container, spec, recorder)
        return []

    def _launch(self, pod: Json, container: ContainerRun, spec: dict[str, Any], recorder: Recorder) -> None:
        folder = container.next_folder()
        shutil.rmtree(folder, ignore_errors=True)
        started = Container(folder)
        ready_fd = started.start(spec)
        image = container.spec.get("image", "")
        recorder.normal(
            pod, "Pulled", f'Container image "{image}" already present on machine', field_path=container_path(container)
        )
        recorder.normal(pod, "Created", "Container created", field_path=container_path(container))
        self.host.exits.watch_end(ready_fd, self.key)
        container.held = ("ContainerCreating", "")
        container.begin(started)
        self._watch(container)
        # `kubectl logs --previous` reads the run before this one.
        for old in sorted(int(p.name) for p in container.folder.iterdir() if p.name.isdigit())[:-3]:
            shutil.rmtree(container.folder / str(old), ignore_errors=True)

    def _watch(self, container: ContainerRun) -> None:
        if container.container is not None and container.running:
            self.host.exits.watch_process(container.container.runner_pid, self.key)

    def _build_spec(
        self, pod: Json, container: ContainerRun, now: float, facts: PodFacts, recorder: Recorder
    ) -> dict[str, Any]:
        host = self.host
        if self._volumes is None:
            volumes = prepare_volumes(pod, self.folder / "volumes", facts, host.lookup)
            self._tokens_due = write_tokens(pod, self.folder / "volumes", now, host.request_token)
            self._volumes = volumes
        own = build_environment(pod, container.spec, facts, host.lookup)
        command, working_dir = command_of(container.spec, own), container.spec.get("workingDir")
        hosts, hostname = str(self.folder / "hosts"), hostname_of(pod)
        folder = container.next_folder()
        env = {**host.base_env, "HOSTNAME": hostname, MARK: str(folder), **own}
        binds = binds_of(container.spec, self._volumes, read_only_volumes(pod))
        if host.isolation == "none":
            if binds:
                recorder.warning(
                    pod,
                    "FailedMount",
                    f"mount namespaces are not available on this machine: container {container.name} finds its volumes "
                    f"elsewhere: {', '.join(f'{target} is {source}' for source, target, _ in binds)}; variables and "
                    "arguments that are paths below them are changed",
                )
            env.update((name, rewrite_unmounted(value, binds)) for name, value in own.items())
            command = [rewrite_unmounted(word, binds) for word in command]
            working_dir = working_dir and rewrite_unmounted(working_dir, binds)
            env["LOCALCLUSTER_HOSTS"], env["LOCALCLUSTER_HOSTNAME"] = hosts, hostname
            env["PYTHONPATH"] = os.pathsep.join(p for p in (host.resolver, env.get("PYTHONPATH", "")) if p)
        return {
            "command": command,
            "env": env,
            "cwd": working_dir or host.working_dir,
            "isolation": host.isolation,
            "hostname": hostname,
            "address": self.pod_ip if host.own_ports and self.pod_ip != LOOPBACK else "",
            "binds": [[hosts, "/etc/hosts", False], *binds],
            "log_bytes": host.log_bytes,
        }

    def _build_status(self, pod: Json, now: float, facts: PodFacts) -> Json:
        stopping = "deletionTimestamp" in pod["metadata"] or self.deadline_passed or self.ending is not None
        inits_over = all(pod_parts.init_done(c) for c in self.containers if c.init)
        statuses: dict[bool, list[Json]] = {True: [], False: []}
        for container in self.containers:
            restarting = not stopping and self._runs_again(pod, container) and container.ended
            turn = "ContainerCreating" if inits_over or container.init else "PodInitializing"
            statuses[container.init].append(container.status(turn, restarting=restarting))
        final = stopping and not self.alive
        new_phase = compute_phase(pod["spec"], statuses[False], statuses[True], final=final)
        status = pod_status(
            pod, new_phase, statuses[False], statuses[True], now, host_ip=facts.host_ip, pod_ip=self.pod_ip
        )
        # `activeDeadlineHandler.ShouldEvict`: the pod is Failed, also if its containers exited with 0.
        if self.deadline_passed:
            status.update(reason="DeadlineExceeded", message=pod_parts.DEADLINE_MESSAGE)
            if final:
                status["phase"] = "Failed"
        return self.ending.onto(status, now) if self.ending and final else status

    def log_folder(self, container: str, *, previous: bool) -> Path | None:
        for each in self.containers:
            if each.name == container:
                attempt = each.attempt - 1 if previous else each.attempt
                folder = each.folder / str(attempt)
                return folder if attempt >= 0 and folder.is_dir() else None
        return None

    def container_ended(self, container: str) -> bool:
        for each in self.containers:
            if each.name == container:
                with contextlib.suppress(OSError):
                    each.refresh()
                return not each.running
        return True
