"""torchrun's options, and the variables from which torchrun reads them. Pure.

A job kind sets the options that a manifest has fields for, `reconcile.frameworks.pytorch` those by which the pods find
each other. Only this module writes a name PET_*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

Value = str | Mapping[str, Any]
"""The value of a variable, or its source (`valueFrom`)."""


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options of torchrun by their names; None: not set."""

    nnodes: str | None = None
    nproc_per_node: str | None = None
    node_rank: Value | None = None
    master_addr: str | None = None
    master_port: str | None = None
    max_restarts: str | None = None
    standalone: str | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: str | None = None

    def variables(self) -> dict[str, Value]:
        values = ((name, getattr(self, option)) for option, name in _NAMES)
        return {name: value for name, value in values if value is not None}


def variable(option: str) -> str:
    """Every option of torchrun has a variable PET_<OPTION> (torch/distributed/argparse_util.py)."""
    return f"PET_{option.upper()}"


_NAMES = tuple((field.name, variable(field.name)) for field in fields(TorchOptions))
"""(option, variable) of each option. Computed once, because it is needed for every pod."""


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """The settings of torchrun in a job's manifest. Each replaces the framework's."""

    options: TorchOptions = TorchOptions()
    world_size: int | None = None
    """Number of processes of the job, for programs that torchrun does not start; None: one in each pod."""

    def variables(self) -> dict[str, Value]:
        """Kubernetes expands $(NAME) in the values, because users may refer to variables of the template."""
        found = self.options.variables()
        if self.world_size is not None:
            found["WORLD_SIZE"] = str(self.world_size)
        if self.options.rdzv_endpoint is not None:
            # The framework's is_host makes the first pod the host of the rendezvous, which it is not here.
            found.setdefault(variable("rdzv_conf"), "")
        return found
