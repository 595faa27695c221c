"""Converts jobs of other operators to AITrainingJobs, or to TrainJobs of Kubeflow Trainer (`tj convert`). Pure.

A kind is a row of `SOURCES`. A kind whose manifest has more than the internal job also has a small file. The report
lists each field that does not carry over: nothing is dropped in silence.
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
"""By resource, or by API group. The internal job is all that any other kind says."""


def _sources(kinds: Iterable[JobKind]) -> Iterable[ConvertibleKind]:
    for kind in kinds:
        # The resource goes first: MPIJob differs from the other kinds of its group.
        special = SPECIALS.get(kind.resource) or SPECIALS.get(kind.group, known.plain)
        yield ConvertibleKind(kind.kind, kind.api_versions, partial(known.convert, kind, special=special))


SOURCES: tuple[ConvertibleKind, ...] = (
    # A kind with companions, such as TrainJob, has its pods in another object, which the manifest lacks.
    *_sources(kind for kind in GUEST_KINDS if not kind.companions),
    *_sources([trainingjob.JOB_KIND]),
    ConvertibleKind("Job", volcano.API_VERSIONS, volcano.convert),
)

TARGETS: Mapping[str, tuple[ConvertibleKind, ...]] = {
    OWN: SOURCES,
    TRAINJOB: (ConvertibleKind("PyTorchJob", pytorchjob.JOB_KIND.api_versions, trainjob.convert),),
}
"""The kind of the result -> the kinds that can be converted to it."""


def why_not(raw: Json, to: str) -> str:
    """The reason why this kind is not converted to `to`; '' if there is no special one."""
    kind = str(raw.get("kind"))
    return trainjob.NOT_MADE.get(kind, "") if to == TRAINJOB else _NOT_CONVERTED.get(kind, "")


_NOT_CONVERTED: Mapping[str, str] = {
    TRAINJOB: "its runtime, which its manifest only names, holds its pods; the operator serves it as it is"
    " (docs/trainer.md)"
}


def find(raw: Json, to: str = OWN) -> ConvertibleKind | None:
    """The row for this manifest's kind and apiVersion; None if the kind is not converted to `to`."""
    sources = TARGETS[to]
    return next((s for s in sources if raw.get("kind") == s.kind and raw.get("apiVersion") in s.api_versions), None)
