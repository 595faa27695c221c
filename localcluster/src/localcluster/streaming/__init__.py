"""`kubectl exec`, `kubectl cp` and `kubectl port-forward`: WebSockets between a client and what runs on a node.

`http.py` hands requests for such a stream over, after the API server has found them right. Knows nothing of kubelets
but `StreamNode`.

Serves: the lines "`kubectl exec` with input ..." and "`exec`, `cp`, `port-forward`" of docs/local-cluster.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class StreamNode(Protocol):
    """What a stream asks of the kubelet. Both raise LookupError, in its words."""

    def command_beside(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` in a running container; `--tty` and `--errors FD` may follow its
        first words, see `container_runner.run_in_container`."""
        ...

    def addresses(self, namespace: str, pod: str) -> list[str]:
        """The addresses of the pod's ports, to try in this order."""
        ...
