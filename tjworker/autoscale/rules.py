"""The settings that planning needs. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

REFUSED_REST = 10
"""The number of cool-downs after which a replica that was taken back is tried again."""


@dataclass(frozen=True, slots=True)
class AutoscaleRules:
    policy: str = "fulfillment"
    max_load_desired: float = 0.97
    cooldown_seconds: float = 30.0
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
