"""The real control plane, for tests and for `tj up --control-plane real`: etcd, kube-apiserver, kube-controller-manager
and kube-scheduler as their authors publish them, built from their Go modules, run as processes of this machine.

It knows nothing of the operator, nor of the local cluster. `python -m controlplane build` makes the programs (once,
into a cache), `python -m controlplane run` runs them, `ControlPlane` does the same inside a test.
"""

from controlplane.audit import Requests
from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane

__all__ = ["ControlPlane", "ControlPlaneError", "Requests"]
