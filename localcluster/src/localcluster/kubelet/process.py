"""A kubelet that really runs pods: each container is a local process under a container runner.

Containers are not confined: they see this machine's files (with their volumes and host names mounted over them where
mount namespaces are available) and all of its network, each pod with a host name, a loopback address and ports of its
own (`ports`, where the kernel lets a process supervise its child). Images, users and resource limits are not applied.
The default working directory is the kubelet's, and `python` is the kubelet's own.

The kubelet may be killed at any time: pods run on, and the next kubelet on the same data folder takes them over with
their exit codes. `shutdown` ends them all.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster.client import ApiError, Client
from localcluster.informer import Informers
from localcluster.kubelet import ports, resolver
from localcluster.kubelet.containers import detect_isolation, exec_command
from localcluster.kubelet.env import PodFacts
from localcluster.kubelet.exits import Exits
from localcluster.kubelet.hosts import HostsFiles
from localcluster.kubelet.logs import LogOptions
from localcluster.kubelet.node import RENEW_SECONDS, Kubelet, NodeConfig
from localcluster.kubelet.pod_parts import LOOPBACK, Host
from localcluster.kubelet.pod_run import PodRun
from localcluster.kubelet.probes import Actions
from localcluster.kubelet.troubles import SHUTTING_DOWN
from localcluster.objects import is_terminal
from localcluster.wire import Json

log = logging.getLogger("localcluster")

POD_NETWORK = ipaddress.ip_network("127.64.0.0/10")
PASSED_ON = ("HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "VIRTUAL_ENV", "SSL_CERT_FILE")
LOG_BYTES = 10 * 1024 * 1024
SHUTDOWN_SECONDS = 10.0
LOOK_AGAIN_SECONDS = 0.25
"""The pause between two looks on a system that cannot report the end of a process."""


class ProcessKubelet(Kubelet):
    """`wake` is called from other threads when there is something to do."""

    name = "process-kubelet"

    def __init__(  # noqa: PLR0913
        self,
        client: Client,
        informers: Informers,
        clock: Callable[[], float],
        nodes: Sequence[NodeConfig],
        *,  # noqa: PLR0913, RUF100
        data_dir: Path,
        wake: Callable[[], None],
        isolation: str = "auto",
        working_dir: str = "",
        renew_seconds: float = RENEW_SECONDS,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        super().__init__(client, informers, clock, nodes, renew_seconds=renew_seconds)
        self._wake = wake
        self._notified: deque[str] = deque()
        data_dir = data_dir.resolve()
        data_dir.mkdir(parents=True, exist_ok=True)
        self.hosts = HostsFiles(informers, _machine_hosts())
        self._isolation = detect_isolation(data_dir) if isolation == "auto" else isolation
        own_ports = isolation != "none" and ports.detect()
        if self._isolation == "none":
            log.warning(
                "mount namespaces are not available: volumes are not mounted, and only Python programs have their "
                "pod's host name and can resolve the names of services"
            )
        if not own_ports:
            log.warning(
                "system calls cannot be supervised: a pod that binds 0.0.0.0 or 127.0.0.1 takes that port from all "
                "pods and may answer for another; bind the pod's IP (status.podIP)"
            )
        self.host = Host(
            folder=data_dir,
            isolation=self._isolation,
            own_ports=own_ports,
            base_env=_base_env(),
            working_dir=working_dir or str(Path.cwd()),
            log_bytes=log_bytes,
            exits=Exits(self._notify),
            actions=Actions(self._notify),
            lookup=self._lookup,
            request_token=self._request_token,
            hosts=self.hosts,
            resolver=_install_resolver(data_dir / "resolver"),
        )
        self.runs: dict[str, dict[str, PodRun]] = {}
        self._adopt(data_dir / "pods")

    def _adopt(self, folder: Path) -> None:
        for each in sorted(folder.glob("*")):
            run = PodRun.load(self.host, each)
            if run is not None:
                self.runs.setdefault(run.key, {})[run.uid] = run
                self.enqueue(f"pod:{run.key}")

    def _notify(self, key: str) -> None:
        self._notified.append(key)
        self._wake()

    def step(self, now: float) -> bool:
        while self._notified:
            self.enqueue(f"pod:{self._notified.popleft()}")
        for result in self.host.actions.take():
            pod = self.pods.get(result.pod)
            run = self.runs.get(result.pod, {}).get(pod["metadata"]["uid"]) if pod is not None else None
            if run is not None and pod is not None:
                run.take_result(result, now, self.recorders[run.node], pod)
                self.enqueue(f"pod:{result.pod}")
        hosts_moved = self.hosts.step(now)
        return super().step(now) or hosts_moved

    def next_due(self) -> float | None:
        # Another thread reported the end of a process during this step.
        if self._notified:
            return 0.0
        due = super().next_due()
        if not self.host.exits.can_watch_processes and any(
            r.alive for runs in self.runs.values() for r in runs.values()
        ):
            return min(due or float("inf"), self.clock() + LOOK_AGAIN_SECONDS)
        return due

    # --- pods ------------------------------------------------------------------------------------------------------

    def reconcile_pod(self, key: str, pod: Json | None, now: float) -> None:
        # Before the first list is in, a pod that is not in the cache may well exist: its processes must not be
        # killed.
        if not self.pods.synced:
            self.enqueue_at(f"pod:{key}", now + LOOK_AGAIN_SECONDS)
            return
        self._end_others(key, pod["metadata"]["uid"] if pod is not None else "")
        if pod is None:
            return
        meta = pod["metadata"]
        # A successor of the same name is another pod, with its own folder.
        run = self.runs.get(key, {}).get(meta["uid"])
        # The pod ended under an earlier kubelet, which has cleaned up: only its deletion is left to confirm.
        if is_terminal(pod) and run is None:
            if "deletionTimestamp" in meta:
                self.confirm_deletion(pod)
            return
        if run is None:
            if self.turned_away(pod, now):
                return
            run = PodRun(self.host, key, meta["uid"], pod["spec"]["nodeName"], self._allocate_address(pod))
            run.save()
            self.runs.setdefault(key, {})[meta["uid"]] = run
        run.bind(pod)
        if is_terminal(pod):
            self._after_end(run, pod)
            return
        if run.ending is None and (ending := self.ending(pod)) is not None:
            run.ending = ending
            run.save()
            self.recorders[run.node].warning(pod, ending.reason, ending.message)
        facts = PodFacts(run.pod_ip, self.configs[run.node].address, self.configs[run.node].capacity())
        status, due = run.sync(pod, now, facts, self.recorders[run.node])
        if due is not None:
            self.enqueue_at(f"pod:{key}", due)
        self.write_pod_status(pod, status)
        if not self.host.exits.can_watch_processes and run.alive:
            self.enqueue_at(f"pod:{key}", now + LOOK_AGAIN_SECONDS)
        # The status was written before: clients must see the last exit code before the pod is gone.
        if "deletionTimestamp" in meta and not run.alive:
            self._forget_run(run)
            self.confirm_deletion(pod)

    def _after_end(self, run: PodRun, pod: Json) -> None:
        run.refresh()
        run.kill()
        if "deletionTimestamp" in pod["metadata"]:
            self._forget_run(run)
            self.confirm_deletion(pod)

    def _end_others(self, key: str, keep_uid: str) -> None:
        """Kill pods of this name that the API server has forgotten: their grace period has no meaning any more."""
        for uid, run in list(self.runs.get(key, {}).items()):
            if uid == keep_uid:
                continue
            run.refresh()
            if run.alive:
                run.kill()
                # A container runner that is only just starting cannot be signalled yet; look again.
                self.enqueue_at(f"pod:{key}", self.clock() + LOOK_AGAIN_SECONDS)
            else:
                self._forget_run(run)

    def _forget_run(self, run: PodRun) -> None:
        run.remove()
        runs = self.runs.get(run.key, {})
        runs.pop(run.uid, None)
        if not runs:
            self.runs.pop(run.key, None)

    def _allocate_address(self, pod: Json) -> str:
        # The address survives a restart of the kubelet: the job's other pods know it.
        had = (pod.get("status") or {}).get("podIP")
        if had:
            return str(had)
        if pod["spec"].get("hostNetwork") or sys.platform != "linux":
            return LOOPBACK
        taken = {run.pod_ip for runs in self.runs.values() for run in runs.values()}
        number = int.from_bytes(hashlib.sha256(pod["metadata"]["uid"].encode()).digest()[:4], "big")
        while True:
            address = str(POD_NETWORK[1 + number % (POD_NETWORK.num_addresses - 2)])
            if address not in taken:
                return address
            number += 1

    def _lookup(self, resource: str, namespace: str, name: str) -> Json | None:
        try:
            scope = f"namespaces/{namespace}/" if namespace else ""
            return self.client.get(f"/api/v1/{scope}{resource}/{name}")
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def _request_token(self, namespace: str, account: str, body: Json) -> Json:
        return self.client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)

    # --- the machine -----------------------------------------------------------------------------------------------

    def take_away(self, name: str) -> None:
        for runs in list(self.runs.values()):
            for run in runs.values():
                if run.node == name:
                    run.refresh()
                    run.kill()

    def shutdown(self, grace_seconds: float = SHUTDOWN_SECONDS) -> None:
        """Ends every pod's processes and waits for it, as a kubelet does when its node shuts down: those pods have
        failed by the node, not by themselves. Reports it to the API server if that still answers. The exit codes and
        reasons stay on disk for the next kubelet."""
        runs = [run for each in self.runs.values() for run in each.values()]
        for run in runs:
            run.refresh()
        ended = [run for run in runs if run.alive]
        for run in ended:
            # Before the first signal: whatever happens from here on, an exit code of 143 is not the program's own.
            run.ending = SHUTTING_DOWN
            run.save()
        deadline = time.monotonic() + grace_seconds
        asked: set[int] = set()
        while True:
            alive = [c for run in runs for c in run.containers if c.container is not None]
            for container in alive:
                container.refresh()
            alive = [c for c in alive if c.running]
            if not alive:
                break
            over = time.monotonic() >= deadline
            for container in alive:
                assert container.container is not None  # noqa: S101 - filtered above
                if over:
                    container.container.kill_all()
                elif id(container) not in asked and container.up:
                    asked.add(id(container))
                    container.container.signal(signal.SIGTERM)
            time.sleep(0.02)
        for run in ended:
            self._report_end(run)
        self.close()

    def _report_end(self, run: PodRun) -> None:
        pod = self.pods.get(run.key)
        if pod is None or pod["metadata"]["uid"] != run.uid:
            return
        facts = PodFacts(run.pod_ip, self.configs[run.node].address, self.configs[run.node].capacity())
        try:
            self.write_pod_status(pod, run.sync(pod, self.clock(), facts, self.recorders[run.node])[0])
        except (ApiError, OSError) as error:
            log.info(
                "pod %s has ended and its status cannot be written now; the next kubelet will write it: %s",
                run.key,
                error,
            )

    def close(self) -> None:
        """Leaves the pods running, as a kubelet that is restarted does."""
        self.host.exits.close()
        self.host.actions.close()

    # --- streams ---------------------------------------------------------------------------------------------------

    def command_beside(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> list[str]:
        run = self._run_of(namespace, pod)
        found = next((c for c in run.containers if c.name == container), None) if run is not None else None
        if found is not None:
            found.refresh()
        if found is None or not found.up:
            raise LookupError(f'unable to upgrade connection: container not found ("{container}")')
        return exec_command(found.path, list(command))

    def addresses(self, namespace: str, pod: str) -> list[str]:
        run = self._run_of(namespace, pod)
        if run is None or not run.alive:
            raise LookupError(f'unable to upgrade connection: pod not found ("{pod}_{namespace}")')
        # Without ports of its own the pod may as well be at the machine's localhost.
        return [run.pod_ip] if self.host.own_ports else [run.pod_ip, LOOPBACK]

    def _run_of(self, namespace: str, pod: str) -> PodRun | None:
        key = f"{namespace}/{pod}"
        seen = self.pods.get(key)
        return self.runs.get(key, {}).get(seen["metadata"]["uid"]) if seen is not None else None

    # --- logs ------------------------------------------------------------------------------------------------------

    def log_folder(
        self, namespace: str, pod: str, container: str, query: Mapping[str, str]
    ) -> tuple[Path, Callable[[], bool]]:
        """Returns the folder of the log, and a function that says whether its container has ended. Raises LookupError
        with the kubelet's message."""
        seen, run = self.pods.get(f"{namespace}/{pod}"), self._run_of(namespace, pod)
        previous = LogOptions.of(query, self.clock()).previous
        if run is not None:
            container = container or run.containers[-1].name
            folder = run.log_folder(container, previous=previous)
            if folder is not None:
                chosen = run
                return folder, lambda: previous or chosen.container_ended(container)
        if previous:
            raise LookupError(f'previous terminated container "{container}" in pod "{pod}" not found')
        raise LookupError(
            f'container "{container}" in pod "{pod}" is waiting to start: {_waiting_reason(seen, container)}'
        )


def _waiting_reason(pod: Json | None, container: str) -> str:
    status = (pod or {}).get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container and "waiting" in (each.get("state") or {}):
            return str(each["state"]["waiting"].get("reason", "ContainerCreating"))
    return "ContainerCreating"


def _base_env() -> dict[str, str]:
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {**env, "PATH": os.pathsep.join([str(Path(sys.executable).parent), path])}


def _install_resolver(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(resolver.__file__, folder / "sitecustomize.py")
    return str(folder)


def _machine_hosts() -> str:
    try:
        return Path("/etc/hosts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "127.0.0.1 localhost\n"
