"""Where the cluster is and who we are there: the kubernetes package's Configuration. Reads files, sends nothing."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from kubernetes import config
from kubernetes.client import Configuration

from tjworker.base import Terminal


def load_configuration(kubeconfig: Path | None = None) -> Configuration:
    """Of the current context of this kubeconfig, else of KUBECONFIG; else of the pod's service account; else of
    ~/.kube/config. Raises Terminal, in one line, that names the file and what is wrong with it."""
    configuration = Configuration()
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    default = Path("~/.kube/config").expanduser()
    named = str(kubeconfig or os.environ.get("KUBECONFIG") or ("" if in_pod else default))
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
            f"the Kubernetes configuration ({named or 'of the pod'}) cannot be used: {_why(named, error)}. Correct it, "
            "or choose another with KUBECONFIG"
        ) from error
    return configuration


def _why(named: str, error: Exception) -> str:
    """What is wrong with the file, in the package's words where they say it."""
    if named and not any(Path(part).exists() for part in named.split(os.pathsep) if part):
        return "there is no such file"
    if isinstance(error, TypeError):  # the package indexes what is no mapping
        return "it is no mapping with clusters, contexts and users"
    # YAML's messages have several lines, the package's end with one dot or two.
    return " ".join(str(error).split()).removeprefix("Invalid kube-config file. ").rstrip(".")


def remove_temporary_files() -> None:
    """At the end of a process; no transport of it can connect afterwards. The kubernetes package writes a kubeconfig's
    certificates to files and removes them with `atexit`, which a Celery child does not run."""
    config.kube_config._cleanup_temp_files()  # type: ignore[no-untyped-call]
