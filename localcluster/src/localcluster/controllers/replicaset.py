"""ReplicaSets: as many pods as `replicas` says, kept alive for as long as the ReplicaSet lives.

Adopts and releases pods by controller reference, deletes surplus in Kubernetes' order, and counts in the status. It
never touches pods of another controller. Safe to run twice: it counts what is there first.
"""

from __future__ import annotations

from localcluster.client import ApiError, ignoring
from localcluster.controllers.common import (
    BURST_REPLICAS,
    PodsController,
    claim_pods,
    create_pods,
    delete_pods,
    deletion_order,
    pod_from_template,
)
from localcluster.informer import key_of
from localcluster.objects import condition, is_active, is_ready, is_terminal, matches, seconds_of, timestamp
from localcluster.wire import Json


class ReplicaSetController(PodsController):
    name = "replicaset-controller"
    kind = "ReplicaSet"
    path = "/apis/apps/v1/replicasets"

    def reconcile(self, key: str, now: float) -> None:
        owner = self._owners.get(key)
        if owner is None:
            return
        meta = owner["metadata"]
        owned = self._owned_by(owner)
        # `FilterActivePods`: an ended or terminating pod is no replica, and is replaced at once.
        orphans = [p for p in self._orphans_beside(owner) if is_active(p)]
        active = claim_pods(self._client, owner, owner["spec"]["selector"], [p for p in owned if is_active(p)], orphans)
        terminating = [p for p in owned if "deletionTimestamp" in p["metadata"] and not is_terminal(p)]
        failure: ApiError | None = None
        # The garbage collector deletes the pods of a ReplicaSet that is being deleted; its counts go on.
        if "deletionTimestamp" not in meta:
            try:
                self._manage_replicas(owner, active)
            except ApiError as error:
                failure = error
        # An error must not stop the counts: pods start and end while creations are refused.
        self._write_status(owner, active, len(terminating), failure, now)
        if failure is not None:
            raise failure

    def _manage_replicas(self, owner: Json, active: list[Json]) -> None:
        missing = owner["spec"].get("replicas", 1) - len(active)
        if missing > 0:
            body = pod_from_template(owner, owner["spec"]["template"], owner["metadata"]["name"] + "-")
            create_pods(self._client, self._recorder, owner, lambda _: body, min(missing, BURST_REPLICAS))
        elif missing < 0:
            # `getIndirectlyRelatedPods` also counts the pods of sibling ReplicaSets. There are no Deployments here
            # that make siblings.
            surplus = deletion_order(active, active)[: min(-missing, BURST_REPLICAS)]
            delete_pods(self._client, self._recorder, owner, surplus)

    def _write_status(
        self, owner: Json, active: list[Json], terminating: int, failure: ApiError | None, now: float
    ) -> None:
        spec, old = owner["spec"], owner.get("status") or {}
        template_labels = {"matchLabels": (spec["template"].get("metadata") or {}).get("labels") or {}}
        ready = [p for p in active if is_ready(p)]
        wait_seconds = spec.get("minReadySeconds", 0)
        ages = (
            [now - seconds_of((condition(p, "Ready") or {})["lastTransitionTime"]) for p in ready]
            if wait_seconds
            else []
        )
        available = len(ready) if not wait_seconds else sum(age >= wait_seconds for age in ages)
        if available < len(ready):
            # No event marks the end of minReadySeconds.
            self.enqueue_at(key_of(owner), now + wait_seconds - max(age for age in ages if age < wait_seconds))
        counts = {
            "fullyLabeledReplicas": sum(matches(template_labels, p["metadata"].get("labels")) for p in active),
            "readyReplicas": len(ready),
            "availableReplicas": available,
            "terminatingReplicas": terminating,
        }
        status: Json = {"replicas": len(active), "observedGeneration": owner["metadata"].get("generation", 1)}
        status.update({k: v for k, v in counts.items() if v or k == "terminatingReplicas"})
        conditions = [c for c in old.get("conditions") or () if c["type"] != "ReplicaFailure"]
        if failure is not None:
            # `calculateStatus` keeps the condition of the first failure, so a status that fails again is the same.
            had = condition(owner, "ReplicaFailure")
            conditions.append(
                had
                or {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "lastTransitionTime": timestamp(now),
                    "message": failure.message,
                    "reason": "FailedCreate" if len(active) < spec.get("replicas", 1) else "FailedDelete",
                }
            )
        if conditions:
            status["conditions"] = conditions
        # `updateReplicaSetStatus` writes nothing when nothing has changed.
        if status == {"replicas": 0, **old} and "replicas" in old:
            return
        path = (
            f"/apis/apps/v1/namespaces/{owner['metadata']['namespace']}/replicasets/{owner['metadata']['name']}/status"
        )
        with ignoring(404):
            self._client.update(path, {**owner, "status": status})
