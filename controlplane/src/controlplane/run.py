"""`python -m controlplane run`: a control plane in the foreground, which starts again what dies, until SIGTERM or
SIGINT.

The kubeconfig appears when the API server is ready. A program that dies again and again ends the whole with exit code
1. A second signal stops at once; SIGKILL leaves nothing behind, either (Linux).
"""

from __future__ import annotations

import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from controlplane.credentials import User
from controlplane.plane import ControlPlane, write_private
from controlplane.releases import Release

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_LOOK_SECONDS = 0.5
_DEATHS = 5
"""A program that dies so often within `_DEATHS_WITHIN_SECONDS` ends the control plane."""
_DEATHS_WITHIN_SECONDS = 60.0


def run(
    kubernetes: Release,
    data_dir: Path,
    kubeconfig: Path,
    *,
    port: int = 0,
    audit_log: Path | None = None,
    users: Sequence[tuple[str, tuple[str, ...], Path]] = (),
) -> int:
    """Exit code. Raises ControlPlaneError when it cannot start."""
    named = [User(name, groups) for name, groups, _ in users if not name.startswith("system:serviceaccount:")]
    plane = ControlPlane(data_dir, kubernetes=kubernetes, port=port, audit_log=audit_log, users=named)
    began = time.monotonic()
    signal.signal(signal.SIGHUP, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        plane.claim()
        kubeconfig.unlink(missing_ok=True)  # its appearance shows that the cluster serves
        plane.start()
        # From here on signals are taken one by one: none may fall between a program's end and its new start.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGALRM})
        for name, _, file in users:
            write_private(file, plane.kubeconfig_for(name).read_text())
        write_private(kubeconfig, plane.kubeconfig.read_text())
        took = time.monotonic() - began
        _say(f"Kubernetes {kubernetes.version} serves at {plane.server} after {took:.1f} s; kubeconfig {kubeconfig}")
        return _watch_over(plane)
    finally:
        signal.signal(signal.SIGTERM, lambda *_: plane.stop(graceful=False))
        signal.signal(signal.SIGINT, lambda *_: plane.stop(graceful=False))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        plane.stop()
        _say("the control plane has stopped")


def _watch_over(plane: ControlPlane) -> int:
    deaths: dict[str, list[float]] = defaultdict(list)
    # Not sigtimedwait: after Ctrl-Z and fg, CPython's returns a signal that was never sent. SIGALRM stays blocked.
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    while signal.sigwait({*_SIGNALS, signal.SIGALRM}) == signal.SIGALRM:
        for name, how in plane.ended().items():
            now = time.monotonic()
            deaths[name] = [at for at in deaths[name] if now - at < _DEATHS_WITHIN_SECONDS] + [now]
            if len(deaths[name]) >= _DEATHS:
                log, words = plane.processes[name].log, plane.processes[name].last_words()
                _say(
                    f"{name} ended {_DEATHS} times within {_DEATHS_WITHIN_SECONDS:.0f} s ({how}); the end of"
                    f" {log}:\n{words}"
                )
                return 1
            _say(f"{name} ended ({how}): starting it again")
            plane.processes[name].start()
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
