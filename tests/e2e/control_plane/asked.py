"""What the operator has asked of the API server, out of its audit log, and kept in a file of each session: lives are
played by several test processes, each with a control plane of its own, and the shipped roles are held against what all
of them have asked for (`test_rights.py`)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.control_plane.operator import Operator
from tjworker.kube import rbac
from tjworker.kube.resources import Process

Right = tuple[str, str, str]
"""(group, resource[/subresource], verb)."""
Refused = tuple[str, str, str]
"""(user, verb, path)."""


@dataclass
class Asked:
    lives: int = 0
    """Worlds that were served."""
    rights: dict[Process, set[Right]] = field(default_factory=dict)
    """Of each process that has come as itself."""
    refused: set[Refused] = field(default_factory=set)
    """Neither by the authorizer nor by admission may anything be. (A namespace that is being deleted answers 403, too,
    and so do Pod Security and quotas; they do not count.)"""


def asked(operator: Operator) -> Asked:
    found = Asked(operator.lives)
    processes = {rbac.user(process): process for process in rbac.PROCESSES}
    for event in operator.plane.audit_events():
        user = event["user"].get("username", "")
        if user not in processes:
            continue
        rights = found.rights.setdefault(processes[user], set())
        if about := event.get("objectRef"):
            parts = (about.get("resource", ""), about.get("subresource", ""))
            rights.add((about.get("apiGroup", ""), "/".join(part for part in parts if part), event["verb"]))
        if (event.get("annotations") or {}).get(
            "authorization.k8s.io/decision"
        ) == "forbid" or "cannot set blockOwnerDeletion" in (event.get("responseStatus") or {}).get("message", ""):
            found.refused.add((user, event["verb"], event["requestURI"]))
    return found


def keep(found: Asked, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rights = {process: sorted(rights) for process, rights in found.rights.items()}
    text = json.dumps({"lives": found.lives, "rights": rights, "refused": sorted(found.refused)})
    (folder / f"{uuid.uuid4().hex}.json").write_text(text)


def kept(folder: Path) -> Asked:
    """By all sessions together."""
    together = Asked()
    for path in folder.glob("*.json"):
        one = json.loads(path.read_text())
        together.lives += one["lives"]
        together.refused |= {(user, verb, where) for user, verb, where in one["refused"]}
        for process, rights in one["rights"].items():
            these = together.rights.setdefault(process, set())
            these |= {(group, resource, verb) for group, resource, verb in rights}
    return together
