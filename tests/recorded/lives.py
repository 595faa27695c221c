"""Lives of jobs without a cluster: pass after pass of `reconcile` on what the watcher would keep, and between two
passes a cluster that does what the last one asked for, or something else, drawn by the seed.

No queue, no API server, no clock: hundreds of lives of every kind, with nodes, gangs, TensorBoards and edits, take
seconds.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from tests.recorded.drawn import draw_job, draw_rules, edit, node
from tests.recorded.kubelets import happen, keep_count
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.needs import ChildNow, EveryNode, Need, NodeNow
from tjworker.api.observed import Observed
from tjworker.api.records_json import decode, decode_view
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import GroupResource
from tjworker.reconcile import (
    Plan,
    reconcile,
    refuse_child,
    report_addon_failure,
    report_create_failure,
    report_delete_failure,
    report_died_passes,
)
from tjworker.reconcile.plan import Create, Delete, Patch
from watcher.projection import project

Json = dict[str, Any]
NOW = 1_767_225_600.0
STEPS = 30
ROUNDS = 5
ENOUGH = 2
"""Passes that do nothing after the end."""
CHILDREN = (PODS, SERVICES, REPLICASETS, BATCH_JOBS, *ALL_POD_GROUPS)


class Life:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"life {seed}")
        self.now, self.rv = NOW, 100
        self.calm = self.draw.random() < 0.5
        self.resource, self.job = draw_job(self.draw)
        self.kind = KNOWN_KINDS[self.resource]
        self.job["metadata"] |= {"namespace": "default", "uid": "uid-of-it", "generation": 1}
        self.job["metadata"] |= {"resourceVersion": "99", "creationTimestamp": to_rfc3339(NOW)}
        self.rules = draw_rules(self.draw)
        self.objects: dict[tuple[GroupResource, str], Json] = {}
        self.nodes = {name: node(name) for name in ("node-0", "node-1", "node-2")}
        self.told: dict[str, Any] = {}
        """What is remembered of the deletion of a pod, by its name."""

    def play(self) -> Iterator[tuple[str, Json]]:
        """Each pass: what led to it, and its answer."""
        happened, over = "created", 0
        for _ in range(STEPS):
            plan = self._decide()
            yield happened, said(plan) | self._write(plan)
            over = over + 1 if "completionTime" in self.job.get("status", {}) and plan.empty else 0
            if over == ENOUGH:
                return
            self.now += self._wait(plan)
            happened = self._something()
            keep_count(self)

    # -- a pass ------------------------------------------------------------------------------------
    def _decide(self) -> Plan:
        """As a worker does: what is asked for is told, and it is decided again."""
        job = parse(self.resource, self.job)
        observed = self._observed()
        if self.draw.random() < 0.05:
            return self._report(job, observed)
        if self.draw.random() < 0.02:
            observed = replace(observed, died_passes=self.draw.choice((2, 3, 9)))
        plan = reconcile(job, observed, self.now, self.rules)
        asked: set[Need] = set()
        for _ in range(ROUNDS):
            missing = [need for need in plan.needs if need not in asked]
            if not missing:
                break
            kind = type(missing[0])
            needs = {need for need in missing if isinstance(need, kind)}
            nodes = {need.name: observed.nodes.get(need.name) for need in needs if isinstance(need, NodeNow)}
            children = {need for need in needs if isinstance(need, ChildNow)}
            observed = replace(
                observed,
                nodes_now={**observed.nodes_now, **nodes},
                every_node=self._nodes() if kind is EveryNode else observed.every_node,
                confirmed=observed.confirmed | children,
            )
            asked |= needs
            plan = reconcile(job, observed, self.now, self.rules)
        return plan

    def _report(self, job: TrainingJob | InvalidJob, observed: Observed) -> Plan:
        """What a worker writes down when the API server has refused something, or passes have died."""
        if isinstance(job, InvalidJob) or self.draw.random() < 0.3:
            return report_died_passes(job, self.draw.choice((2, 3)), self.now)
        why = self.draw.choice(("exceeded quota: pods", "admission webhook denied the request: " + "x" * 1100))
        report = self.draw.choice((report_create_failure, report_delete_failure, report_addon_failure, None))
        if report is None:
            return refuse_child(job, observed, self.now, why, made_pods=False)[0]
        return report(job, self.now, why)

    def _observed(self) -> Observed:
        children: dict[GroupResource, dict[str, bytes]] = {}
        for (resource, name), raw in self.objects.items():
            if resource not in CHILDREN:
                continue
            found = project(resource, raw, self.told.get(name) if resource == PODS else None)
            if found is None or found.change.record is None:
                continue
            if resource == PODS:
                self.told[name] = found.deletion
            children.setdefault(resource, {})[name] = found.change.record
        _, observed = decode_view(None, children, seen={NODES: self.rv, PODS: self.rv})
        held = {pod.node for pod in observed.pods}
        nodes = {name: record for name, record in self._nodes().items() if name in held}
        return replace(observed, nodes=nodes)

    def _nodes(self) -> dict[str, Any]:
        found = {name: project(NODES, raw) for name, raw in self.nodes.items()}
        return {name: decode(NODES, one.change.record) for name, one in found.items() if one and one.change.record}

    # -- what it leads to --------------------------------------------------------------------------
    def _write(self, plan: Plan) -> Json:
        """Into the world. What the user of a guest's kind reads of a status is part of the answer."""
        status = plan.status or plan.deferred_status
        for write in plan.writes:
            if isinstance(write, Create):
                self.add(write.resource, copy.deepcopy(dict(write.body)))
            elif isinstance(write, Delete):
                self.delete(write.resource, write.name, write.grace_seconds)
            elif (write.resource, write.name) in self.objects:
                self.change(write)
        if status is None:
            return {}
        job = parse(self.resource, self.job)
        assert isinstance(job, TrainingJob | InvalidJob)
        written = self.kind.written_status(job, status)
        self.job["status"] = json_of(written)
        return {"status": written}

    def add(self, resource: GroupResource, raw: Json) -> None:
        name = raw["metadata"]["name"]
        if (resource, name) in self.objects:
            return
        self.rv += 1
        meta = {"uid": f"uid-{self.rv}", "resourceVersion": str(self.rv), "creationTimestamp": to_rfc3339(self.now)}
        raw["metadata"] = {"namespace": "default", **raw["metadata"], **meta, "generation": 1}
        self.objects[resource, name] = json_of(raw)

    def delete(self, resource: GroupResource, name: str, grace: int | None = None) -> None:
        raw = self.objects.get((resource, name))
        if raw is None:
            return
        waits = resource == PODS and raw["spec"].get("nodeName") and grace != 0
        if not waits:
            self.gone(resource, name)
        elif "deletionTimestamp" not in raw["metadata"]:
            ended = raw.get("status", {}).get("phase") in ("Succeeded", "Failed")
            granted = 0 if ended else 30
            ends = {"deletionTimestamp": to_rfc3339(self.now + granted), "deletionGracePeriodSeconds": granted}
            raw["metadata"] |= ends
            self.touch(raw)

    def gone(self, resource: GroupResource, name: str) -> None:
        uid = self.objects.pop((resource, name))["metadata"]["uid"]
        self.told.pop(name, None)
        for (kind, child), raw in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in raw["metadata"].get("ownerReferences", ())):
                self.delete(kind, child)

    def change(self, write: Patch) -> None:
        raw = self.objects[write.resource, write.name]
        body = json_of(dict(write.body))
        body["metadata"] = {k: v for k, v in body.get("metadata", {}).items() if k not in ("uid", "resourceVersion")}
        counted = raw.get("spec", {}).get("parallelism"), raw.get("spec", {}).get("replicas")
        _merge(raw, body)
        if counted != (raw.get("spec", {}).get("parallelism"), raw.get("spec", {}).get("replicas")):
            raw["metadata"]["generation"] += 1
        self.touch(raw)

    def touch(self, raw: Json) -> None:
        self.rv += 1
        raw["metadata"]["resourceVersion"] = str(self.rv)

    # -- between two passes ------------------------------------------------------------------------
    def _wait(self, plan: Plan) -> float:
        """Often to the moment at which the pass wants the next one, or a second before."""
        wish = plan.requeue_after_seconds
        if wish and self.draw.random() < 0.5:
            return max(0.0, wish - self.draw.choice((0, 0, 1)))
        return float(self.draw.choice((0, 1, 1, 3, 10, 60)))

    def _something(self) -> str:
        if self.draw.random() < (0.2 if self.calm else 0.08):
            told = edit(self.draw, self.job, self.kind.roles_field)
            self.job["metadata"]["generation"] += 1
            return told
        return ", ".join(happen(self) for _ in range(self.draw.choice((1, 1, 2) if self.calm else (1, 2, 4))))


def json_of(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _merge(into: Json, patch: Json) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


def said(plan: Plan) -> Json:
    status = plan.status or plan.deferred_status
    return {
        "untold": plan.deferred_status is not None,
        "own status": status.to_json() if status else None,
        "writes": [{"what": type(write).__name__, **_fields(write)} for write in plan.writes],
        "events": [_fields(event) for event in plan.events],
        "log tails": [_fields(tail) for tail in plan.log_tails],
        "again after": plan.requeue_after_seconds,
        "decisions": plan.decisions,
    }


RECORDED_AS = {"optional": "beside"}
"""Fields that have another name now than in the record: a new name is no new answer."""


def _fields(value: Any) -> Json:
    return {RECORDED_AS.get(name, name): getattr(value, name) for name in value.__dataclass_fields__}
