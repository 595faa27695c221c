"""A job as the API server holds it, built in steps; `build` sends it through the real parser."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from tjworker.api.kinds import KINDS, parse
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.status import JobStatus
from tjworker.base import GroupResource

CREATED_AT = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class JobBuilder:
    raw: dict[str, Any]
    resource: GroupResource = AITRAININGJOBS
    _current: str = ""
    _status: JobStatus = field(default_factory=JobStatus)

    # -- roles -------------------------------------------------------------------------------------
    def role(
        self,
        name: str,
        replicas: int = 1,
        *,
        restart: str = "",
        scope: str = "",
        limit: int | None = None,
        fail: str = "",
        complete: str = "",
        least: int | None = None,
        most: int | None = None,
        edl: str = "",
        ports: tuple[int, ...] = (7164,),
        containers: tuple[str, ...] = ("aitj-main",),
        template: dict[str, Any] | None = None,
        **more: Any,
    ) -> JobBuilder:
        """A role with one counted container and one counted port. `least`, `most`: minReplicas, maxReplicas."""
        spec: dict[str, Any] = {"replicas": replicas, "template": template or _template(containers, ports)}
        given = {
            "restartPolicy": restart,
            "restartScope": scope,
            "failPolicy": fail,
            "completePolicy": complete,
            "edlPolicy": edl,
        }
        spec |= {k: v for k, v in given.items() if v}
        numbers = {"restartLimit": limit, "minReplicas": least, "maxReplicas": most}
        spec |= {k: v for k, v in numbers.items() if v is not None}
        new = self._copy()
        new.raw["spec"]["replicaSpecs"][name] = spec | more
        return JobBuilder(new.raw, self.resource, name, self._status)

    def workers(self, replicas: int, **role: Any) -> JobBuilder:
        return self.role("trainer", replicas, **role)

    def restart(self, policy: str, scope: str = "", limit: int | None = None) -> JobBuilder:
        """Set fields of the role named last."""
        new = self._copy()
        role = new.raw["spec"]["replicaSpecs"][self._current]
        role["restartPolicy"] = policy
        if scope:
            role["restartScope"] = scope
        if limit is not None:
            role["restartLimit"] = limit
        return new

    # -- the job -----------------------------------------------------------------------------------
    def spec(self, **fields: Any) -> JobBuilder:
        """Fields of the spec by their names in the manifest: `spec(failPolicy="All", timeLimit=60)`."""
        new = self._copy()
        new.raw["spec"] |= copy.deepcopy(fields)
        return new

    def run_policy(self, **fields: Any) -> JobBuilder:
        new = self._copy()
        new.raw["spec"].setdefault("runPolicy", {}).update(copy.deepcopy(fields))
        return new

    def suspended(self, suspend: bool = True) -> JobBuilder:
        return self.spec(suspend=suspend)

    def labels(self, **labels: str) -> JobBuilder:
        return self.metadata(labels=self.raw["metadata"].get("labels", {}) | labels)

    def annotate(self, annotations: dict[str, str]) -> JobBuilder:
        return self.metadata(annotations=self.raw["metadata"].get("annotations", {}) | annotations)

    def metadata(self, **fields: Any) -> JobBuilder:
        """Metadata by its names in JSON: `metadata(uid="other", generation=2, resourceVersion="7")`."""
        new = self._copy()
        new.raw["metadata"] |= fields
        return new

    def version(self, api_version: str) -> JobBuilder:
        new = self._copy()
        new.raw["apiVersion"] = api_version
        return new

    def deleting(self, at: str = "2026-01-01T01:00:00Z") -> JobBuilder:
        return self.metadata(deletionTimestamp=at)

    def status(self, status: JobStatus | None = None, **fields: Any) -> JobBuilder:
        """A whole status, or fields of it by their Python names on top of what is set."""
        value = (status or self._status).model_copy(update=fields)
        checked = JobStatus.model_validate(value.model_dump(by_alias=True))
        return JobBuilder(copy.deepcopy(self.raw), self.resource, self._current, checked)

    # -- results -----------------------------------------------------------------------------------
    def manifest(self) -> dict[str, Any]:
        """What a user would apply."""
        raw = copy.deepcopy(self.raw)
        keep = ("name", "namespace", "labels", "annotations")
        raw["metadata"] = {k: v for k, v in raw["metadata"].items() if k in keep}
        return raw

    def object(self) -> dict[str, Any]:
        """What the API server holds."""
        return copy.deepcopy(self.raw) | {"status": self._status.to_json()}

    def parse(self) -> TrainingJob | InvalidJob:
        return parse(self.resource, self.object())

    def build(self) -> TrainingJob:
        job = self.parse()
        assert isinstance(job, TrainingJob), f"the builder's job is not valid: {'; '.join(map(str, job.errors))}"
        return job

    def _copy(self) -> JobBuilder:
        return JobBuilder(copy.deepcopy(self.raw), self.resource, self._current, self._status)


def make_job(name: str = "digits", namespace: str = "default", resource: GroupResource = AITRAININGJOBS) -> JobBuilder:
    """A job without roles: add at least one."""
    job_kind = KINDS[resource]
    return JobBuilder(
        {
            "apiVersion": job_kind.api_versions[0],
            "kind": job_kind.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-of-{name}",
                "resourceVersion": "100",
                "generation": 1,
                "creationTimestamp": CREATED_AT,
            },
            "spec": {"replicaSpecs": {}},
        },
        resource,
    )


def _template(containers: tuple[str, ...], ports: tuple[int, ...]) -> dict[str, Any]:
    return {
        "spec": {
            "containers": [
                {
                    "name": name,
                    "image": "trainer:1",
                    "command": ["train"],
                    **(
                        {"ports": [{"name": f"aitj-{port}", "containerPort": port} for port in ports]}
                        if ports and i == 0
                        else {}
                    ),
                }
                for i, name in enumerate(containers)
            ]
        }
    }
