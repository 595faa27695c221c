"""Row 18, too: jobs of other operators' kinds that do harm, and annotations that hold JSON: code from git, a
TensorBoard, the host network."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.simulation.guests import ADDONS
from tests.simulation.hostile import NAMES, NAMESPACE, OTHERS, anything, text
from tests.simulation.inputs import make_input
from tests.support.guests import GUESTS, guest_job
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.labels import ANNOTATION_NETWORK_MODE
from tjworker.base import GroupResource

Json = dict[str, Any]
NETWORKS = ("host", "Host", "none", "{}", '{"mode": "host"}')
CUT = ("", "{", "[]", "null", '"', '{"a":', "{}}", "\x00{}", "9" * 400, '{"a": NaN}', "[" * 900)
"""What is no JSON, or none that anybody asked for."""


def make_hostile_guest(seed: int) -> tuple[GroupResource, Json]:
    rng = random.Random(seed)
    resource = rng.choice([AITRAININGJOBS, *sorted(GUESTS), *sorted(GUESTS)])
    raw = make_input(seed).job_json() if resource == AITRAININGJOBS else guest_job(resource)
    raw["metadata"] |= {"namespace": NAMESPACE, "name": rng.choice(NAMES), "uid": "uid-of-it", "resourceVersion": "7"}
    told = raw["metadata"].setdefault("annotations", {})
    for name, value in {**ADDONS, ANNOTATION_NETWORK_MODE: "host"}.items():
        if rng.random() < 0.5:
            told[name] = value if rng.random() < 0.3 else _annotation(rng, value)
    for _ in range(rng.randint(0, 3)):
        _somewhere(rng, raw, KNOWN_KINDS[resource].roles_field)
    return resource, raw


def _annotation(rng: random.Random, value: str) -> str:
    if not value.startswith("{"):
        return rng.choice((*NETWORKS, text(rng)))
    if rng.random() < 0.3:
        return rng.choice((*CUT, text(rng)))
    made = json.loads(value)
    for _ in range(rng.randint(1, 2)):
        name = rng.choice((*made, "image", "envs", "ingressSpec", "branch", "password", text(rng)))
        made[name] = anything(rng)
    return json.dumps(made)


def _somewhere(rng: random.Random, raw: Json, roles_field: str) -> None:
    """Of the spec, most often of a template, something becomes something else; or the status of its own operator."""
    if rng.random() < 0.15:
        raw["status"] = rng.choice(({"operator": anything(rng)}, {"conditions": anything(rng)}, anything(rng)))
        return
    place: Any = raw["spec"]
    roles = place.get(roles_field) if isinstance(place, dict) else None
    if isinstance(roles, dict) and roles and rng.random() < 0.7:
        place = roles
    while isinstance(place, dict | list) and place:
        step = rng.choice(sorted(place)) if isinstance(place, dict) else rng.randrange(len(place))
        if rng.random() < 0.2 or not isinstance(place[step], dict | list):
            place[step] = anything(rng) if rng.random() < 0.7 else copy.deepcopy(rng.choice(OTHERS))
            return
        place = place[step]
