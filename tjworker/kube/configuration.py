"""Finds the address and the credentials of the cluster: the kubernetes package's Configuration. Reads files only."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from kubernetes import config
from kubernetes.client import Configuration

from tjworker.base import Terminal


def load_configuration(kubeconfig: Path | None = None) -> Configuration:
    """Read the current context of `kubeconfig`, else of the file in KUBECONFIG, else the pod's service account, else
    ~/.kube/config. Raises Terminal with one line that names the file and its fault."""
    configuration = Configuration()
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    default = Path("~/.kube/config").expanduser()
    named = str(kubeconfig or os.environ.get("KUBECONFIG") or ("" if in_pod else default))
    # The user has not named this file, so a message about it alone would not say what to do.
    if named == str(default) and not default.exists():
        raise Terminal(
            "no Kubernetes cluster is configured: KUBECONFIG is not set, this is no pod, and "
            f"{default} does not exist. Set KUBECONFIG to a kubeconfig file"
        )
    try:
        if named:
            config.load_kube_config(named, client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise Terminal(
            f"the Kubernetes configuration ({named or 'of the pod'}) cannot be used: {_describe_fault(named, error)}."
            " Correct it, or choose another with KUBECONFIG"
        ) from error
    return configuration


def _describe_fault(named: str, error: Exception) -> str:
    """The fault of the file; in the package's words if they are clear."""
    # KUBECONFIG may name several files. The package skips missing ones and complains of an empty configuration.
    if named and not any(Path(part).exists() for part in named.split(os.pathsep) if part):
        return "there is no such file"
    # The package indexes whatever the file holds, such as a list.
    if isinstance(error, TypeError):
        return "it is no mapping with clusters, contexts and users"
    # YAML's messages have several lines. The package's end with one dot or two.
    return " ".join(str(error).split()).removeprefix("Invalid kube-config file. ").rstrip(".")


def remove_temporary_files() -> None:
    """Call it at the end of a process: no transport can connect afterwards."""
    # The kubernetes package writes a kubeconfig's certificates to files and removes them with `atexit`. A Celery child
    # ends without running `atexit`, and would leave private keys in /tmp.
    config.kube_config._cleanup_temp_files()  # type: ignore[no-untyped-call]
