"""Jobs of other operators -> AITrainingJob, or TrainJob of Kubeflow's Trainer (`tj convert`). Pure: no file, no
cluster.

A kind is a row of `SOURCES` and, where its manifest says more than the internal job, a small file. What does not carry
over is in the report, field by field: nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from tjworker.api.kinds import GUEST_KINDS, trainingjob
from tjworker.api.kinds.aitrainingjob import KIND as OWN
from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.kubeflow import pytorchjob
from tjworker.api.kinds.trainer.trainjob import KIND as TRAINJOB
from tjworker.base import Json
from tjworker.convert import edl, known, kubedl, kubeflow, mpijob, trainjob, volcano
from tjworker.convert.known import Special
from tjworker.convert.report import Converted, Left, Origins, Path, RefusedManifest, printed

__all__ = [
    "SOURCES",
    "Converted",
    "ConvertibleKind",
    "Left",
    "Origins",
    "Path",
    "RefusedManifest",
    "find",
    "printed",
    "why_not",
]


@dataclass(frozen=True, slots=True)
class ConvertibleKind:
    """A kind that can be converted."""

    kind: str
    api_versions: tuple[str, ...]
    convert: Callable[[Json], Converted | RefusedManifest]


SPECIALS: Mapping[str, Special] = {
    "kubeflow.org": kubeflow.special,
    "mpijobs.kubeflow.org": mpijob.of_kubeflow,
    "mpijobs.training.kubedl.io": mpijob.of_kubedl,
    "paddlepaddle.org": edl.special,
    "training.kubedl.io": kubedl.special,
}
"""By API group, or by resource; of others the internal job says everything."""


def _sources(kinds: Iterable[JobKind]) -> Iterable[ConvertibleKind]:
    for kind in kinds:
        special = SPECIALS.get(kind.resource) or SPECIALS.get(kind.group, known.plain)
        yield ConvertibleKind(kind.kind, kind.api_versions, partial(known.convert, kind, special=special))


SOURCES: tuple[ConvertibleKind, ...] = (
    *_sources(kind for kind in GUEST_KINDS if not kind.companions),
    *_sources([trainingjob.JOB_KIND]),
    ConvertibleKind("Job", volcano.API_VERSIONS, volcano.convert),
)

TARGETS: Mapping[str, tuple[ConvertibleKind, ...]] = {
    OWN: SOURCES,
    TRAINJOB: (ConvertibleKind("PyTorchJob", pytorchjob.JOB_KIND.api_versions, trainjob.convert),),
}
"""What each kind can be made of."""


def why_not(raw: Json, to: str) -> str:
    """Why jobs of this kind are not made into `to`; '' where there is no more to say than that they are not."""
    kind = str(raw.get("kind"))
    return trainjob.NOT_MADE.get(kind, "") if to == TRAINJOB else _NOT_CONVERTED.get(kind, "")


_NOT_CONVERTED: Mapping[str, str] = {
    TRAINJOB: "its pods stand in its runtime, which its manifest only names; the operator serves it as it is"
    " (docs/trainer.md)"
}


def find(raw: Json, to: str = OWN) -> ConvertibleKind | None:
    of = TARGETS[to]
    return next((s for s in of if raw.get("kind") == s.kind and raw.get("apiVersion") in s.api_versions), None)
