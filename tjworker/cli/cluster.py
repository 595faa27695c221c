"""Which cluster a command talks to, and a client for it. Opens nothing before the first request; changes nothing.

Which: KUBECONFIG and its current context; else the kubeconfig of a local stack in this folder (said on stderr); else
what the kubernetes package finds (in-cluster, ~/.kube/config).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tjworker.cli.console import echo
from tjworker.cli.errors import UserError

if TYPE_CHECKING:
    from tjworker.kube.client import KubeClient
    from tjworker.kube.port import Transport

DEFAULT_STATE_DIR = ".tj"
"""Of a local stack, in the current folder."""
STACK_SETTINGS = "env"
"""Its settings, beside its kubeconfig: `TJ_NAME=value`, as a shell reads them."""
REQUEST_TIMEOUT_SECONDS = 15.0
USER_AGENT = "tj/0.1"
"""What a person has written with `tj` is no field of the operator's, in server-side apply's eyes."""


@dataclass(frozen=True, slots=True)
class Cluster:
    api: KubeClient
    transport: Transport
    namespace: str
    """Of the current context; `default` when it names none."""
    host: str = ""
    """Its address, for messages."""
    operator: Mapping[str, str] | None = None
    """Settings of its operator (`TJ_NAME`); one that is not among them has its default. None: not known here."""


def choose_kubeconfig(*, quiet: bool = False) -> Path | None:
    """The file to use, None for what KUBECONFIG or the kubernetes package says."""
    local = Path(DEFAULT_STATE_DIR) / "kubeconfig"
    if os.environ.get("KUBECONFIG"):
        return None
    if local.exists():
        if not quiet:
            echo(f"using {local} (KUBECONFIG is not set)", err=True)
        return local
    return None


def stack_settings(kubeconfig: Path) -> Mapping[str, str]:
    """Those of the local stack that wrote this kubeconfig; {} when none did."""
    try:
        text = (kubeconfig.parent / STACK_SETTINGS).read_text(encoding="utf-8")
        pairs = [word.partition("=") for word in shlex.split(text)]
    except (OSError, ValueError):
        return {}
    return {name: value for name, _, value in pairs if name.startswith("TJ_")}


def missing_settings(kubeconfig: Path | None) -> Mapping[str, str]:
    """Those of the local stack that this environment does not set itself, for what reads settings in this process."""
    found = stack_settings(kubeconfig or Path(os.environ.get("KUBECONFIG") or "kubeconfig"))
    return {name: value for name, value in found.items() if name not in os.environ}


def operator_settings(kubeconfig: Path | None) -> Mapping[str, str] | None:
    """Of the operator of that cluster (None: see `choose_kubeconfig`): a local stack's, which lie beside its
    kubeconfig; else this environment's, where it is the operator's own pod or names TJ_KINDS; else None."""
    if found := stack_settings(kubeconfig or Path(os.environ.get("KUBECONFIG") or "kubeconfig")):
        return found
    told = {name: value for name, value in os.environ.items() if name.startswith("TJ_")}
    return told if "TJ_KINDS" in told or (told and "KUBERNETES_SERVICE_HOST" in os.environ) else None


@contextmanager
def open_cluster(
    kubeconfig: Path | None = None, *, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> Iterator[Cluster]:
    """A client for the cluster of this kubeconfig; None: see `load_configuration`. Raises UserError when none is
    usable."""
    from tjworker.base import Terminal
    from tjworker.kube.client import KubeClient
    from tjworker.kube.configuration import load_configuration
    from tjworker.kube.transport import KubeTransport

    try:
        configuration = load_configuration(kubeconfig)
        transport = KubeTransport(configuration, user_agent=USER_AGENT)
    except Terminal as error:
        raise UserError(f"{error.message}; or start a local one with `tj up`") from None
    client = KubeClient(transport, request_timeout_seconds=request_timeout_seconds)
    try:
        namespace, host = _context_namespace(kubeconfig), str(configuration.host)
        yield Cluster(client, transport, namespace, host, operator_settings(kubeconfig))
    finally:
        client.close()


@contextmanager
def user_cluster(*, quiet: bool = False, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> Iterator[Cluster]:
    """The cluster that the user's command means. `quiet`: does not say which. Raises UserError when it does not answer,
    or lacks our CRDs."""
    from tjworker.base import Transient
    from tjworker.kube.errors import NOT_INSTALLED

    kubeconfig = choose_kubeconfig(quiet=quiet)
    with open_cluster(kubeconfig, request_timeout_seconds=request_timeout_seconds) as cluster:
        try:
            yield cluster
        except Transient as error:
            if error.reason == NOT_INSTALLED:
                raise UserError(f"{error.message}: the cluster has no such CRD; `tj doctor` says what to do") from None
            if error.status:  # it answers
                raise
            raise UserError(
                f"the cluster at {cluster.host} does not answer: {error.message}\n"
                "    Is it running? `tj up` starts a local one; KUBECONFIG says which one is meant."
            ) from None


def _context_namespace(kubeconfig: Path | None) -> str:
    from kubernetes import config

    try:
        _, current = config.list_kube_config_contexts(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig) if kubeconfig else None
        )
        return str(current["context"].get("namespace") or "default")
    except (config.ConfigException, OSError, KeyError, TypeError, ValueError):  # what is wrong was found before
        return "default"
