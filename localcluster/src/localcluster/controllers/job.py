"""batch/v1 Jobs: run pods until enough have succeeded, or too many have failed.

Follows syncJob of kubernetes v1.36: parallelism up and down with and without completions, Indexed mode, backoffLimit
with its growing delay, suspend, activeDeadlineSeconds, FailureTarget and SuccessCriteriaMet before Failed and Complete,
and the tracking finalizer, so that a pod deleted by anyone is counted once. What its pods do is looked at a second
later, all of it at once (SyncJobBatchPeriod); an edit of its spec at once. Not here: podFailurePolicy, successPolicy
and backoffLimitPerIndex. A finished Job is never touched again (its TTL is `ttl.py`'s). Safe to run twice: a pod is
counted through `uncountedTerminatedPods` before its finalizer goes.
"""

from __future__ import annotations

from collections.abc import Callable

from localcluster.client import ApiError, Client, ignoring
from localcluster.controllers.common import (
    BURST_REPLICAS,
    PodsController,
    claim_pods,
    create_pods,
    delete_pods,
    deletion_order,
    pod_from_template,
    pods_path,
)
from localcluster.controllers.job_pass import Pass, count_settled, indexed_pod
from localcluster.controllers.job_status import (
    TRACKING_FINALIZER,
    Backoff,
    counts_as_failed,
    format_indexes,
    has_finalizer,
    index_of,
    is_finished,
    new_condition,
    parse_indexes,
    past_backoff_on_failure,
    set_condition,
)
from localcluster.informer import Informers, key_of, split_key
from localcluster.objects import (
    condition,
    controller_of,
    is_active,
    is_ready,
    is_terminal,
    phase_of,
    seconds_of,
    timestamp,
)
from localcluster.recorder import Recorder
from localcluster.wire import Json

MAX_UNCOUNTED_PODS = 500


class JobController(PodsController):
    name = "job-controller"
    kind = "Job"
    path = "/apis/batch/v1/jobs"
    batch_seconds = 1.0  # SyncJobBatchPeriod

    def __init__(self, client: Client, informers: Informers, recorder: Recorder, clock: Callable[[], float]) -> None:
        self._backoffs: dict[str, Backoff] = {}
        super().__init__(client, informers, recorder, clock)

    def _owner_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None:
            # `deleteJob`: without their Job nothing else would remove the finalizer of its pods.
            self._backoffs.pop(old["metadata"]["uid"], None)
            for pod in self._owned_by(old):
                self.enqueue(f"orphan:{key_of(pod)}")
        else:
            super()._owner_changed(old, new)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        super()._pod_changed(old, new)
        # `enqueueOrphanPod`: the pod may reach the cache after its Job has gone, and no event of the Job will follow.
        if new is not None and has_finalizer(new):
            self.enqueue(f"orphan:{key_of(new)}")

    def reconcile(self, key: str, now: float) -> None:
        if key.startswith("orphan:"):
            self._free_orphan(key.removeprefix("orphan:"))
            return
        job = self._owners.get(key)
        if job is None:
            return
        uid = job["metadata"]["uid"]
        if is_finished(job):
            # `syncJob` leaves a finished Job as it is, whatever happens to its pods.
            self._backoffs.pop(uid, None)
            return
        self._sync_job(job, now)

    def _free_orphan(self, key: str) -> None:
        """A pod whose Job is gone, or is finished, must not be held back by the finalizer."""
        pod = self._pods.get(key)
        if pod is None or not has_finalizer(pod):
            return
        ref = controller_of(pod)
        if ref is not None and ref["kind"] == "Job":
            owner = self._owners.get(f"{split_key(key)[0]}/{ref['name']}")
            if owner is not None and owner["metadata"]["uid"] == ref["uid"] and not is_finished(owner):
                return
        self._remove_finalizer(pod)

    def _sync_job(self, job: Json, now: float) -> None:
        at = self._observe_pods(job, now)
        # A suspended Job has not started: activeDeadlineSeconds counts from startTime.
        if "startTime" not in at.status and not at.spec.get("suspend"):
            at.status["startTime"] = timestamp(now)
            at.status_moved = True
        self._judge_end(at)
        failure: ApiError | None = None
        try:
            if at.verdict is not None:
                if at.active:
                    delete_pods(self._client, self._recorder, job, at.active)
                    at.terminating += len(at.active)
                    at.active = []
            else:
                self._sync_pods(at)
        except ApiError as error:
            # `syncJob` writes the status before it returns the error: some pods may have been created.
            failure = error
        for name, value in (
            ("active", len(at.active)),
            ("ready", sum(is_ready(p) for p in at.active)),
            ("terminating", at.terminating),
        ):
            # In Go `active` is an integer, left out at 0; `ready` and `terminating` are pointers, written at 0.
            if at.status.get(name, 0 if name == "active" else None) != value:
                at.status[name] = value
                at.status_moved = True
        self._track_finalizers(at)
        if failure is not None:
            raise failure

    def _observe_pods(self, job: Json, now: float) -> Pass:
        meta = job["metadata"]
        pods = claim_pods(self._client, job, job["spec"]["selector"], self._owned_by(job), self._orphans_beside(job))
        old = job.get("status") or {}
        held = old.get("uncountedTerminatedPods") or {}
        status = {
            **old,
            "conditions": [dict(c) for c in old.get("conditions") or ()],
            "uncountedTerminatedPods": {k: list(held.get(k) or ()) for k in ("succeeded", "failed")},
        }
        at = Pass(
            job=job,
            status=status,
            pods=pods,
            now=now,
            active=[p for p in pods if is_active(p)],
            terminating=sum("deletionTimestamp" in p["metadata"] and not is_terminal(p) for p in pods),
        )
        # An earlier pass has counted these in the status, and not yet removed their finalizers.
        known = {*at.uncounted["succeeded"], *at.uncounted["failed"]}
        new = [p for p in pods if has_finalizer(p) and p["metadata"]["uid"] not in known]
        succeeded = [p for p in new if phase_of(p) == "Succeeded"]
        failed = [p for p in new if phase_of(p) != "Succeeded" and counts_as_failed(p, job)]
        at.succeeded = old.get("succeeded", 0) + len(succeeded) + len(at.uncounted["succeeded"])
        at.failed = old.get("failed", 0) + len(failed) + len(at.uncounted["failed"])
        # Two pods that succeed for one index count once (`calculateSucceededIndexes`).
        if at.indexed:
            at.succeeded = len(self._completed_indexes(at))
        at.backoff = self._backoffs.get(meta["uid"], Backoff()).after(succeeded, failed)
        return at

    def _completed_indexes(self, at: Pass) -> set[int]:
        completed = parse_indexes(at.status.get("completedIndexes") or "")
        ended = {index_of(p) for p in at.pods if phase_of(p) == "Succeeded"}
        return {i for i in completed | {i for i in ended if i is not None} if i < at.spec.get("completions", 0)}

    def _judge_end(self, at: Pass) -> None:
        """Decides whether the Job has ended. An earlier verdict is final."""
        now, spec = timestamp(at.now), at.spec
        for kind, end in (("SuccessCriteriaMet", "SuccessCriteriaMet"), ("FailureTarget", "Failed")):
            # The interim condition is final: raising backoffLimit afterwards does not revive the Job.
            had = condition(at.job, kind)
            if had is not None and had["status"] == "True":
                at.verdict = new_condition(end, had.get("reason", ""), had.get("message", ""), now)
                return
        deadline = spec.get("activeDeadlineSeconds")
        started = at.status.get("startTime")
        if at.failed > spec.get("backoffLimit", 6) or past_backoff_on_failure(at.job, at.pods):
            at.verdict = new_condition(
                "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit", now
            )
        # `pastActiveDeadline`: a suspended Job has no deadline. A resumed one has a new startTime.
        elif deadline is not None and started and not spec.get("suspend"):
            ends = seconds_of(started) + deadline
            if at.now >= ends:
                at.verdict = new_condition(
                    "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline", now
                )
            else:
                self.enqueue_at(key_of(at.job), ends)

    def _sync_pods(self, at: Pass) -> None:
        """Creates or deletes pods, then looks for success and suspension."""
        # `syncJob` does not manage the pods of a Job that is being deleted: the garbage collector takes them.
        if "deletionTimestamp" in at.job["metadata"]:
            return
        failure: ApiError | None = None
        try:
            self._manage_pods(at)
        except ApiError as error:
            failure = error
        # Without completions, the Job is complete when one pod has succeeded and all have ended.
        completions = at.spec.get("completions")
        complete = not at.active and (at.succeeded > 0 if completions is None else at.succeeded >= completions)
        if complete:
            at.verdict = new_condition(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
                timestamp(at.now),
            )
        else:
            self._note_suspension(at)
        if failure is not None:
            raise failure

    def _note_suspension(self, at: Pass) -> None:
        conditions, now = at.status["conditions"], timestamp(at.now)
        if at.spec.get("suspend"):
            if set_condition(conditions, "Suspended", "True", "JobSuspended", "Job suspended", now):
                at.status_moved = True
                at.status.pop("startTime", None)
                self._recorder.normal(at.job, "Suspended", "Job suspended")
        elif set_condition(conditions, "Suspended", "False", "JobResumed", "Job resumed", now):
            at.status_moved = True
            at.status["startTime"] = now
            self._recorder.normal(at.job, "Resumed", "Job resumed")

    def _manage_pods(self, at: Pass) -> None:
        spec, active = at.spec, len(at.active)
        if spec.get("suspend"):
            self._remove_surplus(at, active)
            return
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is None:
            # `manageJob`: after a success no pod is created, and the pods that run are left to end.
            want = active if at.succeeded > 0 else parallelism
        else:
            want = max(0, min(parallelism, completions - at.succeeded))
        doubles = self._doubled_indexes(at) if at.indexed else []
        if active > want or doubles:
            self._remove_surplus(at, max(0, active - want), doubles)
            return
        # With podReplacementPolicy Failed a terminating pod is replaced only when it has ended.
        missing = want - active - (at.terminating if spec.get("podReplacementPolicy") == "Failed" else 0)
        if missing <= 0:
            return
        wait = at.backoff.remaining_seconds(at.now)
        # `manageJob`: the backoff is the Job's, and holds back every pod, also one of an index that never failed.
        if wait > 0:
            self.enqueue_at(key_of(at.job), at.now + max(wait, self.batch_seconds))
            return
        self._create_missing(at, min(missing, BURST_REPLICAS))

    def _doubled_indexes(self, at: Pass) -> list[Json]:
        seen: set[int | None] = set()
        doubles = []
        for pod in sorted(at.active, key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["uid"])):
            index = index_of(pod)
            if index in seen or index is None or index >= at.spec.get("completions", 0):
                doubles.append(pod)
            seen.add(index)
        return doubles

    def _remove_surplus(self, at: Pass, at_least: int, first: list[Json] | None = None) -> None:
        going = list(first or ())
        rest = [p for p in at.active if p not in going]
        going = (going + deletion_order(rest)[: max(0, at_least - len(going))])[:BURST_REPLICAS]
        if going:
            # `deleteJobPods` removes the finalizer first: the Job's own deletion must not count as a failure.
            for pod in going:
                self._remove_finalizer(pod)
            delete_pods(self._client, self._recorder, at.job, going)
            uids = {p["metadata"]["uid"] for p in going}
            at.active = [p for p in at.active if p["metadata"]["uid"] not in uids]
            at.terminating += len(going)

    def _create_missing(self, at: Pass, count: int) -> None:
        name = at.job["metadata"]["name"]
        body = pod_from_template(at.job, at.spec["template"], name + "-")
        body["metadata"]["finalizers"] = [*body["metadata"].get("finalizers", ()), TRACKING_FINALIZER]
        if not at.indexed:
            made = create_pods(self._client, self._recorder, at.job, lambda _: body, count)
        else:
            taken = self._completed_indexes(at) | {i for p in at.active if (i := index_of(p)) is not None}
            free = [i for i in range(at.spec.get("completions", 0)) if i not in taken][:count]
            made = create_pods(
                self._client, self._recorder, at.job, lambda n: indexed_pod(body, name, free[n]), len(free)
            )
        # The status of this pass counts the new pods, which the cache does not show yet.
        at.active = [*at.active, *([{"metadata": {}}] * made)]

    def _track_finalizers(self, at: Pass) -> None:
        """Status first, then the finalizers, then the counts: a crash in between counts nothing twice."""
        with_finalizer = {p["metadata"]["uid"] for p in at.pods if has_finalizer(p)}
        if count_settled(at.status, with_finalizer, at.indexed):
            at.status_moved = True
        ended = self._count_ended(at)
        if at.verdict is not None and at.verdict["type"] in ("FailureTarget", "SuccessCriteriaMet"):
            if condition({"status": at.status}, at.verdict["type"]) is None:
                at.status["conditions"].append(at.verdict)
                at.status_moved = True
            end = "Failed" if at.verdict["type"] == "FailureTarget" else "Complete"
            at.verdict = {**at.verdict, "type": end}
        self._write_status(at)
        self._backoffs[at.job["metadata"]["uid"]] = at.backoff
        for pod in ended:
            self._remove_finalizer(pod)
            with_finalizer.discard(pod["metadata"]["uid"])
        if count_settled(at.status, with_finalizer, at.indexed):
            at.status_moved = True
        finished = self._finish_job(at)
        self._write_status(at)
        if finished:
            self._record_end(at)

    def _count_ended(self, at: Pass) -> list[Json]:
        """The pods whose finalizer may go, after noting each in the status."""
        ended: list[Json] = []
        completed = parse_indexes(at.status.get("completedIndexes") or "")
        ending = at.verdict is not None
        failing = ending and at.verdict is not None and at.verdict["type"] in ("FailureTarget", "Failed")
        for pod in at.pods:
            failed = counts_as_failed(pod, at.job)
            if not has_finalizer(pod) or not (phase_of(pod) == "Succeeded" or failed or ending):
                continue
            # `trackJobStatusAndRemoveFinalizers` bounds the size of the status; the next pass counts the others.
            if len(at.uncounted["succeeded"]) + len(at.uncounted["failed"]) >= MAX_UNCOUNTED_PODS:
                break
            ended.append(pod)
            uid = pod["metadata"]["uid"]
            if phase_of(pod) == "Succeeded" and uid not in at.uncounted["failed"]:
                if at.indexed:
                    index = index_of(pod)
                    completed |= {index} if index is not None and index < at.spec.get("completions", 0) else set()
                elif uid not in at.uncounted["succeeded"]:
                    at.uncounted["succeeded"].append(uid)
                    at.status_moved = True
            elif (failed or failing) and uid not in at.uncounted["failed"]:
                at.uncounted["failed"].append(uid)
                at.status_moved = True
        if at.indexed and format_indexes(completed) != (at.status.get("completedIndexes") or ""):
            at.status.update(completedIndexes=format_indexes(completed), succeeded=len(completed))
            at.status_moved = True
        return ended

    def _finish_job(self, at: Pass) -> bool:
        # Since Kubernetes 1.31 a Job is Failed or Complete only when none of its pods terminates.
        if at.verdict is None or at.uncounted["succeeded"] or at.uncounted["failed"] or at.terminating or at.active:
            return False
        now = timestamp(at.now)
        if set_condition(
            at.status["conditions"], at.verdict["type"], "True", at.verdict["reason"], at.verdict["message"], now
        ):
            at.status_moved = True
        if at.verdict["type"] == "Complete":
            at.status["completionTime"] = now
        return True

    def _record_end(self, at: Pass) -> None:
        verdict = at.verdict or {}
        if verdict["type"] == "Failed":
            self._recorder.warning(at.job, verdict["reason"], verdict["message"])
            return
        completions = at.spec.get("completions")
        if completions is not None and at.status.get("succeeded", 0) > completions:
            self._recorder.warning(
                at.job, "TooManySucceededPods", "Too many succeeded pods running after completion count reached"
            )
        self._recorder.normal(at.job, "Completed", "Job completed")

    def _write_status(self, at: Pass) -> None:
        if not at.status_moved:
            return
        meta = at.job["metadata"]
        status = {
            k: v
            for k, v in at.status.items()
            if v not in ([], None) and not (k in ("active", "succeeded", "failed") and v == 0)
        }
        status["uncountedTerminatedPods"] = {k: v for k, v in at.uncounted.items() if v}
        path = f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{meta['name']}/status"
        at.job = self._client.update(path, {**at.job, "status": status})
        at.status_moved = False

    def _remove_finalizer(self, pod: Json) -> None:
        meta = pod["metadata"]
        left = [f for f in meta.get("finalizers") or () if f != TRACKING_FINALIZER]
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": left or None}
        }
        with ignoring(404):
            self._client.patch(pods_path(meta["namespace"], meta["name"]), body)
