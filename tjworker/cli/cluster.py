"""Chooses the cluster of a command and makes a client for it. Connects at the first request; changes nothing.

The cluster is the current context of KUBECONFIG; else that of a local stack in this folder, with a note on stderr; else
the one that the kubernetes package finds (in-cluster, ~/.kube/config).
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
    from tjworker.settings import Settings

DEFAULT_STATE_DIR = ".tj"
"""The folder of a local stack, in the current folder."""
STACK_SETTINGS = "env"
"""The file with the stack's settings, in the folder of its kubeconfig: `TJ_NAME=value`, as a shell reads them."""
REQUEST_TIMEOUT_SECONDS = 15.0
USER_AGENT = "tj/0.1"
"""The field manager of what a user writes with `tj`: for server-side apply it is not the operator."""


@dataclass(frozen=True, slots=True)
class Cluster:
    api: KubeClient
    transport: Transport
    namespace: str
    """The namespace of the current context; `default` if it names none."""
    host: str = ""
    """The address of the API server, for messages."""
    operator: Mapping[str, str] | None = None
    """Settings of the cluster's operator (`TJ_NAME`); a missing one has its default. None if they are unknown here."""


def choose_kubeconfig(*, quiet: bool = False) -> Path | None:
    """The kubeconfig of a local stack; None to use KUBECONFIG, or what the kubernetes package finds."""
    local = Path(DEFAULT_STATE_DIR) / "kubeconfig"
    # An empty KUBECONFIG counts as unset, as for kubectl (`NewDefaultClientConfigLoadingRules`).
    if os.environ.get("KUBECONFIG"):
        return None
    if local.exists():
        if not quiet:
            # On stderr: a program may read stdout.
            echo(f"using {local} (KUBECONFIG is not set)", err=True)
        return local
    return None


def stack_settings(kubeconfig: Path) -> Mapping[str, str]:
    """The settings of the local stack that wrote this kubeconfig; {} if none did."""
    try:
        text = (kubeconfig.parent / STACK_SETTINGS).read_text(encoding="utf-8")
        pairs = [word.partition("=") for word in shlex.split(text)]
    except (OSError, ValueError):
        return {}
    return {name: value for name, _, value in pairs if name.startswith("TJ_")}


def missing_settings(kubeconfig: Path | None) -> Mapping[str, str]:
    """The settings of the local stack that this environment does not set, for code that reads settings here."""
    found = stack_settings(kubeconfig or Path(os.environ.get("KUBECONFIG") or "kubeconfig"))
    return {name: value for name, value in found.items() if name not in os.environ}


def settings_here() -> Settings:
    """The settings of this environment, completed from those of a local stack: only these know the address of its
    Redis. Raises UserError if one is wrong."""
    from tjworker.settings import settings_or_exit

    # Everything that reads settings in this process must read the same.
    os.environ.update(missing_settings(choose_kubeconfig(quiet=True)))
    try:
        return settings_or_exit()
    except SystemExit as refusal:
        raise UserError(str(refusal)) from None


def operator_settings(kubeconfig: Path | None) -> Mapping[str, str] | None:
    """The settings of the cluster's operator: the local stack's, if it wrote the kubeconfig; else this environment's,
    if it is the operator's own pod or names TJ_KINDS; else None. `kubeconfig`: see `choose_kubeconfig`."""
    if found := stack_settings(kubeconfig or Path(os.environ.get("KUBECONFIG") or "kubeconfig")):
        return found
    own = {name: value for name, value in os.environ.items() if name.startswith("TJ_")}
    # The kubelet sets KUBERNETES_SERVICE_HOST in each container: with it and with TJ_ variables, this is a pod of the
    # operator. On a user's machine TJ_REDIS_URL alone says nothing about the operator's kinds.
    return own if "TJ_KINDS" in own or (own and "KUBERNETES_SERVICE_HOST" in os.environ) else None


@contextmanager
def open_cluster(
    kubeconfig: Path | None = None, *, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> Iterator[Cluster]:
    """A client for the cluster of this kubeconfig; None: see `load_configuration`. Raises UserError if there is no
    usable configuration."""
    # Imported here: `tj --help` and errors of usage must not wait for the kubernetes package.
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
    """The cluster of the user's command. `quiet`: no note on stderr. Raises UserError if the cluster does not answer or
    lacks the operator's CRDs."""
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
    except (config.ConfigException, OSError, KeyError, TypeError, ValueError):  # reported when it was loaded
        return "default"
