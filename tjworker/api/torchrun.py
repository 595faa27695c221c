"""torchrun's options, and the variables in which a pod's torchrun finds them. Pure.

Job kinds say the options that a manifest sets, `reconcile.frameworks.pytorch` those by which the pods find each other.
Nothing but this module writes a name PET_*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

Value = str | Mapping[str, Any]
"""Of a variable; or its source (`valueFrom`)."""
PREFIX = "PET_"


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
        """Every option of torchrun has a variable PET_<OPTION> (torch/distributed/argparse_util.py)."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {variable(name): value for name, value in values.items() if value is not None}


def variable(option: str) -> str:
    return PREFIX + option.upper()


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """What a job's manifest sets of its launcher. Each setting replaces the framework's."""

    options: TorchOptions = TorchOptions()
    world_size: int | None = None
    """Processes of the whole job, for programs that torchrun does not start; None: one in each pod."""

    def variables(self) -> dict[str, Value]:
        """They are raw: a user may write $(NAME) of a variable of the template."""
        found = self.options.variables()
        if self.world_size is not None:
            found["WORLD_SIZE"] = str(self.world_size)
        if self.options.rdzv_endpoint is not None:
            # The framework's is_host makes the first pod the host of the rendezvous, which it is not here.
            found.setdefault(variable("rdzv_conf"), "")
        return found
