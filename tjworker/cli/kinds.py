"""The kinds of job in a cluster: those whose CRDs it has, and those that its operator serves. A kind of which only one
is true is switched off. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tjworker.api.kinds import EVERY_KIND, GUEST_KINDS, KINDS, served, shortest_name
from tjworker.base import OperatorError
from tjworker.cli.errors import UserError
from tjworker.kube.errors import NO_PERMISSION

if TYPE_CHECKING:
    from tjworker.api.kinds.base import JobKind
    from tjworker.base import GroupResource
    from tjworker.kube.client import KubeClient

Kinds = Mapping["GroupResource", "JobKind"]
_INSTALLED: WeakKeyDictionary[KubeClient, Kinds] = WeakKeyDictionary()
"""Cached per client, since a command asks several times; the next command sees a new CRD."""


def installed_kinds(api: KubeClient) -> Kinds:
    """The operator's own kinds, and each guest kind whose CRD the cluster has, whatever TJ_KINDS says in this
    environment. One request per client. The CRD of an own kind may be missing: reading its jobs then reports it."""
    if api not in _INSTALLED:
        _INSTALLED[api] = {**KINDS, **_guests(api)}
    return _INSTALLED[api]


def _guests(api: KubeClient) -> Kinds:
    try:
        # By discovery, which every user may read (`system:discovery`). A list of CRDs needs a right in the whole
        # cluster.
        there = api.served_resources({kind.group for kind in GUEST_KINDS})
    except OperatorError as error:
        if error.status not in NO_PERMISSION:
            raise
        return chosen_kinds()  # the user may not read the discovery: try the kinds that the environment names
    return {kind.resource: kind for kind in GUEST_KINDS if kind.resource in there}


def chosen_kinds() -> Kinds:
    """The operator's own kinds, and those that TJ_KINDS of this environment names. Raises UserError for an unknown
    name."""
    from tjworker.settings import settings_or_exit

    return kinds_named(settings_or_exit().kind_list)


def kinds_named(names: Iterable[str], source: str = "TJ_KINDS") -> Kinds:
    """The operator's own kinds, and the named ones. Raises UserError for an unknown name."""
    try:
        return served(names, source)
    except OperatorError as error:
        raise UserError(error.message) from error


def operator_kinds(settings: Mapping[str, str] | None) -> Kinds | None:
    """The kinds that an operator with these settings serves; None if the settings are unknown."""
    if settings is None:
        return None
    from tjworker.settings import Settings

    return kinds_named(Settings(kinds=settings.get("TJ_KINDS", "")).kind_list)


def is_off(kind: JobKind, installed: Collection[GroupResource], of_operator: Collection[GroupResource] | None) -> bool:
    """True if a job of this kind cannot be created, or would wait for ever."""
    return kind.resource not in installed or (of_operator is not None and kind.resource not in of_operator)


def how_to_switch_on(kinds: Iterable[JobKind], of_operator: Kinds | None = None) -> str:
    """The advice how to switch kinds on. `of_operator`: the kinds that it serves already, which TJ_KINDS must keep."""
    more = list(kinds)
    already = [kind for kind in (of_operator or {}).values() if kind.guest]
    words = (
        EVERY_KIND if len(more) + len(already) == len(GUEST_KINDS) else ",".join(map(shortest_name, (*already, *more)))
    )
    page = "docs/kinds.md" if any(kind.group == "kubeflow.org" for kind in more) else "docs/kubedl.md"
    if len(more) > 1:
        in_a_cluster = "add them to TJ_KINDS of the operator and apply their folders in k8s/kinds"
    else:
        in_a_cluster = f"add it to TJ_KINDS of the operator and `kubectl apply -k k8s/kinds/{more[0].resource}`"
    return f"start the local stack with `tj up --kinds {words}`; in a cluster {in_a_cluster} ({page})"


def switched_off(kinds: Collection[JobKind], of_operator: Kinds | None = None) -> str:
    """The message for a user who names kinds that are switched off."""
    names = " and ".join(f"{kind.kind} ({kind.group})" for kind in kinds)
    are = "is" if len(kinds) == 1 else "are"
    return f"{names} {are} switched off here: {how_to_switch_on(kinds, of_operator)}"


def known_words() -> str:
    """All kinds that the operator knows, for messages."""
    own = " and ".join(f"{kind.kind} ({kind.api_versions[0]})" for kind in KINDS.values())
    return f"{own}; where they are switched on, {names_by_group(GUEST_KINDS)}"


def names_by_group(kinds: Iterable[JobKind]) -> str:
    """`TFJob, JAXJob (kubeflow.org); MarsJob (training.kubedl.io)`."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(kind.kind)
    return "; ".join(f"{', '.join(names)} ({group})" for group, names in groups.items())
