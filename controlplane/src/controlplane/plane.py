"""A whole control plane as children of this process: `with ControlPlane() as plane: ... plane.kubeconfig`.

RBAC is on; `kubeconfig` is cluster-admin, `kubeconfig_for` any other user. There are no nodes: kubelets run elsewhere
and reach it by the kubeconfig. Nothing outlives the process (on Linux, not even after SIGKILL), and a folder of
its own is removed at the end. Start it in a thread that lives as long as it should (see `launch`). A folder may be used
again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from controlplane import binaries, certificates, commands, credentials, ports
from controlplane.api import Api
from controlplane.audit import AuditLog, Requests
from controlplane.commands import LOOPBACK, Layout
from controlplane.credentials import ADMIN, CONTROLLER_MANAGER, SCHEDULER, User
from controlplane.errors import ControlPlaneError
from controlplane.process import Process
from controlplane.releases import Release, release

START_SECONDS = 240.0
STOP_SECONDS = {"kube-scheduler": 3.0, "kube-controller-manager": 3.0, "kube-apiserver": 8.0, "etcd": 5.0}
_TRIES = 3
_PREFIX = "control-plane-"
_UNCLAIMED_SECONDS = 60.0
_SERVICE_ACCOUNT = "system:serviceaccount:"


class ControlPlane:
    """`folder` None: a temporary one. `users`: the users that need a token; service accounts need not be
    named. `address`: another one than the loopback, for real nodes (see `Layout`). `gangs`: the alpha feature of 1.36,
    gang scheduling by PodGroups, is on."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        kubernetes: Release | None = None,
        port: int = 0,
        audit_log: Path | None = None,
        users: Iterable[User] = (),
        address: str = LOOPBACK,
        gangs: bool = False,
    ) -> None:
        self.release = kubernetes or release()
        self._temporary = folder is None
        if folder is None:
            _sweep()
        self.folder = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._port = port
        self._address = address
        self._gangs = gangs
        self._audit_log = audit_log.resolve() if audit_log else self.folder / "audit.log"
        self._audit = AuditLog(self._audit_log)
        self._tokens = {
            user.name: (secrets.token_urlsafe(24), user) for user in (ADMIN, CONTROLLER_MANAGER, SCHEDULER, *users)
        }
        self._lock: IO[str] | None = None
        self._api: Api | None = None
        self.processes: dict[str, Process] = {}
        """In the order in which they start."""

    # -- life --------------------------------------------------------------------------------------
    def start(self) -> ControlPlane:
        """Returns when the API server is ready. Raises ControlPlaneError, and leaves nothing running then."""
        self.claim()
        programs = binaries.locate(self.release)
        lacking = binaries.missing(self.release)
        if lacking:
            self.stop(graceful=False)
            raise ControlPlaneError(binaries.explain_missing(self.release, lacking))
        try:
            self._prepare()
            for again in range(_TRIES):
                # New ports for each try, and with them new command lines.
                api_port, etcd_port, peer_port = self._ports()
                self.layout = Layout(self.folder, api_port, etcd_port, peer_port, self._audit_log, self._address)
                self.processes = {
                    name: Process(name, command, self.layout.log(name))
                    for name, command in commands.all_commands(programs, self.layout, gangs=self._gangs).items()
                }
                if self._serve(last_try=again == _TRIES - 1):
                    break
            # Their kubeconfigs name the API server's certificate, which is there once it serves.
            for name in ("kube-controller-manager", "kube-scheduler"):
                self.processes[name].start()
        except BaseException:
            self.stop(graceful=False)
            raise
        return self

    def claim(self) -> None:
        """Take the folder. Raises ControlPlaneError when another control plane has it. Part of `start`."""
        if self._lock:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ControlPlaneError(
                f"a control plane already runs in {self.folder}: stop it, or choose another folder (--data-dir)"
            ) from None
        self._lock = lock

    def stop(self, *, graceful: bool = True) -> None:
        """In the reverse order of starting. Safe to call twice."""
        # etcd last: the others write to it until they end.
        for process in reversed(self.processes.values()):
            process.stop(STOP_SECONDS[process.name] if graceful else 0)
        if self._lock:
            self._lock.close()
            self._lock = None
        self._remove()

    def __enter__(self) -> ControlPlane:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(graceful=not self._temporary)

    # -- what it gives -----------------------------------------------------------------------------
    @property
    def server(self) -> str:
        return self.layout.server

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster's administrator."""
        return self.kubeconfig_for(ADMIN.name)

    def kubeconfig_for(self, user: str) -> Path:
        """The kubeconfig of a user that was given to the constructor, or of a service account
        (`system:serviceaccount:NAMESPACE:NAME`): the account is made if absent, and its token is signed by the API
        server. RBAC decides what either may do."""
        path = self.layout.kubeconfig(user.replace(":", "."))
        if not path.exists():
            write_private(path, credentials.kubeconfig(self.server, self._ca(), user, self._token(user)))
        return path

    def audit_requests(self, user: str = "", *, namespace: str = "") -> Requests:
        """(verb, resource[/subresource]) -> how often, of one user or of all, from the audit log."""
        return self._audit.count(user, namespace=namespace)

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """Every line of the audit log so far."""
        return self._audit.lines()

    def ended(self) -> dict[str, str]:
        """Programs that should run and do not: name -> how it ended."""
        return {name: how for name, process in self.processes.items() if (how := process.ended())}

    # -- how it is done ----------------------------------------------------------------------------
    def _prepare(self) -> None:
        self._audit_log.parent.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("*.kubeconfig"):
            old.unlink()  # of another start: other ports, other tokens
        at = Layout(self.folder, 0, 0, 0, self._audit_log)
        if not at.signing_key.exists():
            write_private(at.signing_key, credentials.new_signing_key())
        if not (at.internal_certificate.exists() and at.internal_key.exists()):
            certificate, key = certificates.make_pair()
            write_private(at.internal_certificate, certificate)
            write_private(at.internal_key, key)
        write_private(at.tokens, credentials.token_file(self._tokens.values()))
        write_private(at.audit_policy, commands.AUDIT_POLICY)

    def _ports(self) -> list[int]:
        return [self._port, *ports.find_free(2)] if self._port else ports.find_free(3)

    def _serve(self, *, last_try: bool) -> bool:
        """Start etcd and the API server. False: another process took one of the ports first."""
        started = [self.processes["etcd"], self.processes["kube-apiserver"]]
        for process in started:
            process.log.unlink(missing_ok=True)
            process.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            for process in started:
                how = process.ended()
                # Only the API server is asked whether it is ready: etcd, which is looked at first, is not what lacks.
                late = time.monotonic() > deadline and process is started[-1]
                if how or late:
                    said = process.last_words()
                    for each in started:
                        each.stop(0)
                    # Another process took a port between the search for it and the start; with a chosen port the user
                    # must decide.
                    if how and "address already in use" in said and not last_try and not self._port:
                        return False
                    what = f"ended ({how})" if how else f"is not ready after {START_SECONDS:.0f} s"
                    raise ControlPlaneError(f"{process.name} {what}; the end of {process.log}:\n{said}")
            time.sleep(0.05)
        for who, user in (("controller-manager", CONTROLLER_MANAGER), ("scheduler", SCHEDULER)):
            text = credentials.kubeconfig(self.server, self._ca(), user.name, self._token(user.name))
            write_private(self.layout.kubeconfig(who), text)
        return True

    def _ready(self) -> bool:
        if self._api is None or self.processes["kube-apiserver"].ended():
            try:
                self._api = Api(self.server, self._ca(), self._tokens[ADMIN.name][0])
            except (OSError, ValueError):  # the certificate is not written yet, or half
                return False
        return self._api.ready()

    def _ca(self) -> str:
        return self.layout.certificate.read_text(encoding="ascii")

    def _token(self, user: str) -> str:
        if user in self._tokens:
            return self._tokens[user][0]
        namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
        if not user.startswith(_SERVICE_ACCOUNT) or not name:
            raise ControlPlaneError(
                f"user {user} has no token: name it when the control plane is made (users=..., --user), or use a "
                f"service account ({_SERVICE_ACCOUNT}NAMESPACE:NAME)"
            )
        assert self._api is not None  # noqa: S101  it has been started
        return self._api.service_account_token(namespace, name)

    def _remove(self) -> None:
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _sweep() -> None:
    """Remove temporary folders of control planes whose process was killed before it could: their lock is free."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            # One that has only just been made may not have taken its lock yet.
            if time.time() - old.stat().st_mtime < _UNCLAIMED_SECONDS:
                continue
            with (old / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
