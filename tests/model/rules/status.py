"""What a status may say, and when it may say so: phases, conditions, times, counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.chronicle import Json
from tests.model.contract import ENDS, ROUNDING_SECONDS, SEEN_SECONDS
from tests.model.lives import NEVER, Life, Pod, Version
from tests.model.losses import loss, may_be_final
from tests.model.rules.rule import Rule
from tjworker.api.timefmt import from_rfc3339

_MAKES_NOTHING = frozenset({"Terminating", "Suspended", *ENDS})
_FINAL = ("phase", "completionTime", "startTime", "startRunningTime", "restartCounts", "attempts", "conditions")


def phases_follow_each_other(life: Life) -> Iterator[str]:
    """Never Pending again once it has run (but after a suspension), from Terminating only to the end that is
    decided."""
    before_that = ""
    for before, after in life.statuses():
        was, now = before.status.get("phase", ""), after.status.get("phase", "")
        if was == now:
            continue
        if was not in ("Pending", "Creating"):
            before_that = was
        where = f"{life.name} went from phase {was or 'none'} to {now or 'none'} at {life.says(after.at)}"
        ran = after.status.get("startRunningTime")
        if was in ENDS:
            yield f"{where}: an end is final"
        elif was == "Terminating" and now != (before.status.get("ending") or {}).get("phase"):
            yield f"{where}: its end was decided, {before.status.get('ending')}"
        elif now == "Pending" and ran and before_that not in ("Suspended", ""):
            yield f"{where}: it has run, and while its pods are replaced it is Restarting"
        elif now == "" or (now == "Terminating" and not after.status.get("ending")):
            yield f"{where}: nothing leads there"
        else:
            yield ""


def conditions_move_with_their_status(life: Life) -> Iterator[str]:
    for before, after in life.statuses():
        had, has = _conditions(before), _conditions(after)
        for kind, condition in has.items():
            old = had.get(kind)
            since = condition["lastTransitionTime"]
            where = f"condition {kind} of {life.name} at {life.says(after.at)}"
            if old is not None and old["status"] == condition["status"]:
                moved = since != old["lastTransitionTime"]
                yield (
                    f"{where}: lastTransitionTime moved, and status is {old['status']} as before"
                    f" (reason {old['reason']}, now {condition['reason']})"
                    if moved
                    else ""
                )
            elif kind == "FullSize":
                # Beat writes it without a lease. Its write may come late, as long as the version that it saw is the
                # latest; the time is that of its look.
                seconds = from_rfc3339(since) or NEVER
                seen = before.at - ROUNDING_SECONDS <= seconds <= after.at + ROUNDING_SECONDS
                yield "" if seen else f"{where}: {since} is no time at which this version was the latest"
            else:
                yield _about_now(where, since, after)
        # A job that has ended, is suspended or was taken from the autoscaler waits for no more replicas: neither True
        # nor False would be true.
        over = after.status.get("phase") == "Suspended" or "ending" in after.status
        over |= after.job is not None and all(role.edl_policy != "Auto" for role in after.job.roles)
        gone = had - has.keys() - ({"FullSize"} if over else set())
        yield from (f"condition {kind} of {life.name} was taken away at {life.says(after.at)}" for kind in gone)


def conditions_say_what_the_phase_says(life: Life) -> Iterator[str]:
    for _, after in life.statuses():
        has = _conditions(after)
        phase = after.status.get("phase", "")
        want = {
            "Succeeded": phase == "Succeed",
            "Failed": phase in ENDS - {"Succeed"},
            "Suspended": phase == "Suspended",
        }
        for kind, is_so in want.items():
            told = has.get(kind)
            if told is not None and told["reason"] == "InvalidSpec":
                continue
            if (told is not None and told["status"] == "True") != is_so:
                yield f"phase {phase} of {life.name} at {life.says(after.at)}: condition {kind} is {told}"
            else:
                yield ""


def times_are_written_once(life: Life) -> Iterator[str]:
    """Each with what it is the time of, and then never again."""
    for before, after in life.statuses():
        was, now, at = before.status, after.status, life.says(after.at)
        for field in ("startTime", "startRunningTime", "completionTime"):
            if was.get(field) and was[field] != now.get(field):
                yield f"{field} of {life.name} changed at {at}: {was[field]}, now {now.get(field)}"
            elif now.get(field) and not was.get(field):
                where = f"{field} of {life.name} at {at}"
                yield _begun(life, where, after) if field == "startTime" else _about_now(where, now[field], after)
        runs = now.get("phase") == "Running"
        if runs and not now.get("startRunningTime"):
            yield f"{life.name} is Running at {at} and has no startRunningTime"
        if bool(now.get("completionTime")) != (now.get("phase") in ENDS):
            yield f"{life.name} is {now.get('phase')} at {at}, its completionTime {now.get('completionTime')}"
        if now.get("phase") and not now.get("startTime") and not _never_started(was, now):
            yield f"{life.name} is {now['phase']} at {at} and has no startTime"
        yield ""


def _never_started(was: Json, now: Json) -> bool:
    """It is suspended from its creation on, or comes to an end without having been resumed."""
    ends = now["phase"] == "Terminating" or now["phase"] in ENDS
    return now["phase"] == "Suspended" or (ends and bool(was.get("phase")) and not was.get("startTime"))


def running_means_that_every_replica_runs(life: Life) -> Iterator[str]:
    """At some moment that the pass may have seen, each replica that was wanted ran, or had succeeded."""
    for before, after in life.statuses():
        if after.status.get("phase") != "Running" or before.status.get("phase") == "Running":
            continue
        moments = _moments(life, after.at)
        jobs = life.jobs(after.at - SEEN_SECONDS, after.at)
        lacking = [
            role.name
            for job in jobs[-1:]
            for role in job.roles
            if not any(
                _enough(
                    life,
                    role.name,
                    min(r.replicas for r in life.roles(role.name, after.at - SEEN_SECONDS, after.at)),
                    at,
                )
                for at in moments
            )
        ]
        yield f"{life.name} became Running at {life.says(after.at)}, and not all of {lacking} ran" if lacking else ""


def _moments(life: Life, at: float) -> list[float]:
    changes = [time for pod in life.pods for time in (pod.running_at, pod.ended_at)]
    return [at, *(time for time in changes if at - SEEN_SECONDS <= time <= at)]


def _enough(life: Life, role: str, replicas: int, at: float) -> bool:
    pods = life.of_role(role)
    done = {pod.index for pod in pods if pod.succeeded and pod.ended_at <= at}
    running = sum(pod.runs(at) and pod.index not in done for pod in pods)
    finished = sum(pod.succeeded and pod.ended_at <= at for pod in pods)
    failed = {pod.index for pod in pods if _failed_for_good(life, pod, at)}
    return running + finished + len(failed) >= replicas


def _failed_for_good(life: Life, pod: Pod, at: float) -> bool:
    """It may have by then: nothing comes in its place."""
    lost = None if pod.succeeded else loss(life, pod)
    return lost is not None and lost.at <= at and may_be_final(life, lost, at)


def counts_never_fall(life: Life) -> Iterator[str]:
    for before, after in life.statuses():
        was, now = before.status.get("restartCounts") or {}, after.status.get("restartCounts") or {}
        fell = [
            f"{role} {cause} {count}, now {now.get(role, {}).get(cause, 0)}"
            for role, counts in was.items()
            for cause, count in counts.items()
            if now.get(role, {}).get(cause, 0) < count
        ]
        yield f"restarts of {life.name} became fewer at {life.says(after.at)}: {fell}" if fell else ""
        total = sum(count for counts in now.values() for count in counts.values())
        if after.status.get("restarts", 0) != total:
            yield f"restarts of {life.name} is {after.status.get('restarts')} at {life.says(after.at)}, by cause {now}"


def nothing_is_replaced_at_an_end(life: Life) -> Iterator[str]:
    """Pods go, and none comes in their place."""
    for _, after in life.statuses():
        phase = after.status.get("phase", "")
        if phase not in _MAKES_NOTHING:
            continue
        counts = after.status.get("replicaStatuses") or {}
        wrong = [role for role, numbers in counts.items() if numbers.get("restarting", 0)]
        yield f"{life.name} is {phase} at {life.says(after.at)}, and of {wrong} pods are restarting" if wrong else ""


def an_end_stays_as_it_is(life: Life) -> Iterator[str]:
    """`status.ending` never changes once it is set, nor does the status of a job that has ended."""
    for before, after in life.statuses():
        at = life.says(after.at)
        decided = before.status.get("ending")
        if decided:
            now = after.status.get("ending", decided)
            yield f"the end of {life.name} was decided, {decided}, and at {at} it was {now}" if now != decided else ""
        if before.status.get("phase") in ENDS:
            changed = [name for name in _FINAL if _settled(before, name) != _settled(after, name)]
            told = "; ".join(_change(before.status.get(name), after.status.get(name)) for name in changed)
            yield f"{life.name} had ended, and at {at} its status changed: {changed}, {told}" if changed else ""


def _settled(version: Version, name: str) -> object:
    """Of conditions all but the generation: an edit of a finished job is seen, and changes nothing. A TensorBoard goes
    on for its time."""
    told = version.status.get(name)
    if name != "conditions":
        return told
    return [{**one, "observedGeneration": 0} for one in told or () if one["type"] != "TensorBoard"]


def _change(was: object, now: object) -> str:
    """What of it is new."""
    if isinstance(was, list) and isinstance(now, list):
        return str([one for one in now if one not in was])
    return f"{was}, now {now}"


def the_generation_goes_up(life: Life) -> Iterator[str]:
    for before, after in life.statuses():
        was, now = before.status.get("observedGeneration", 0), after.status.get("observedGeneration", 0)
        wrong = now < was or now > after.generation
        yield (
            f"observedGeneration of {life.name} at {life.says(after.at)}: {was}, now {now}, of {after.generation}"
            if wrong
            else ""
        )


def last_reconcile_time_moves_with_something_else(life: Life) -> Iterator[str]:
    for before, after in life.statuses():
        same = {**before.status, "lastReconcileTime": ""} == {**after.status, "lastReconcileTime": ""}
        yield f"lastReconcileTime of {life.name} moved alone at {life.says(after.at)}" if same else ""


def failures_are_of_pods_that_failed(life: Life) -> Iterator[str]:
    """Each failure that a status lists is one of a pod, with its exit code."""
    told: set[tuple[str, int | None, str]] = set()
    pods: dict[str, list[Pod]] = {}
    for pod in life.pods:
        pods.setdefault(pod.name, []).append(pod)
    for _, after in life.statuses():
        for failure in after.status.get("failures") or ():
            key = (failure["pod"], failure.get("exitCode"), failure["time"])
            if key in told:
                continue
            told.add(key)
            codes = {code for pod in pods.get(failure["pod"], ()) for code in pod.exit_codes}
            if failure["pod"] not in pods:
                yield f"{life.name} lists a failure of {failure['pod']}, which never was"
            elif (
                codes
                and failure.get("exitCode") is not None
                and failure["exitCode"] not in codes
                and not any(p.restarts for p in pods[failure["pod"]])
            ):
                yield f"{life.name} lists {failure['pod']} with exit code {failure['exitCode']}, it ended with {codes}"
            else:
                yield ""
        if len(after.status.get("failures") or ()) > 10:
            yield f"{life.name} lists more than ten failures at {life.says(after.at)}"


def _conditions(version: Version) -> Mapping[str, Json]:
    return {condition["type"]: condition for condition in version.status.get("conditions") or ()}


def _begun(life: Life, where: str, version: Version) -> str:
    """When the operator took the job on: with its first status, or with its first pod, if that came before. Then the
    status may come whenever, as who was to write it may have died."""
    told = version.status["startTime"]
    seconds = from_rfc3339(told)
    made = [pod for pod in life.pods if pod.made_at <= version.at]
    shown = [pod.made_at for pod in made if pod.made_at < version.at - SEEN_SECONDS and pod.there(version.at)]
    if seconds is not None and shown and seconds > min(shown) + ROUNDING_SECONDS:
        return f"{where}: {told} is later than its first pod, which was made at {life.says(min(shown))}"
    if seconds is not None and any(abs(seconds - pod.made_at) <= ROUNDING_SECONDS for pod in made):
        return ""
    return _about_now(where, told, version)


def _about_now(where: str, told: str, version: Version) -> str:
    seconds = from_rfc3339(told)
    late = (
        seconds is None or not version.at - SEEN_SECONDS - ROUNDING_SECONDS <= seconds <= version.at + ROUNDING_SECONDS
    )
    return f"{where}: {told} is not when it was written" if late else ""


RULES: Mapping[str, Rule] = {
    "phases follow each other as the lifecycle says": phases_follow_each_other,
    "lastTransitionTime moves when a condition's status does, and only then": conditions_move_with_their_status,
    "conditions Succeeded, Failed and Suspended say what the phase says": conditions_say_what_the_phase_says,
    "startTime, startRunningTime and completionTime are written once, when it is so": times_are_written_once,
    "Running means that every replica runs": running_means_that_every_replica_runs,
    "restart counts never fall, and their sum is status.restarts": counts_never_fall,
    "no pod is restarting at an end, nor while suspended": nothing_is_replaced_at_an_end,
    "an end stays as it was decided": an_end_stays_as_it_is,
    "observedGeneration never goes back, nor beyond the spec": the_generation_goes_up,
    "lastReconcileTime moves with something else": last_reconcile_time_moves_with_something_else,
    "failures are of pods that failed": failures_are_of_pods_that_failed,
}
