"""docs/internals/upstream.md and ARCHITECTURE.md name places: each of them is there."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs/internals/upstream.md"
ROW = re.compile(r"^\| (?!Upstream |---)(?P<name>.+?) \| (?P<here>.*?) \| (?P<why>.*?) ?\|$", re.MULTILINE)
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACE = re.compile(r"(?P<module>(?:tjworker|watcher|beat_schedule)[\w.]*):(?P<name>[\w.]+)")
FOLDERS = ("tjworker/", "watcher/", "k8s/", "docs/", "tests/", "beat_schedule.py")


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer(PAGE.read_text(encoding="utf-8")))


def places() -> list[str]:
    """Everything on the page that is written as a place, once each."""
    quoted = [text for page in (PAGE, ROOT / "ARCHITECTURE.md") for text in QUOTED.findall(page.read_text("utf-8"))]
    return sorted({text for text in quoted if PLACE.fullmatch(text) or text.startswith(FOLDERS)})


def attribute(owner: Any, name: str) -> Any:
    """A name of a module, a field of a model or a dataclass, a method."""
    fields = getattr(owner, "model_fields", {}) or (
        {field.name: field for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else {}
    )
    return fields[name] if name in fields else getattr(owner, name)


@pytest.mark.parametrize("place", places())
def test_the_place_is_there(place: str) -> None:
    found = PLACE.fullmatch(place)
    if found is None:
        assert (ROOT / place).exists(), f"a page names {place}, which is not there"
        return
    owner = importlib.import_module(found["module"])
    for name in found["name"].split("."):
        owner = attribute(owner, name)


def test_a_place_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AttributeError):
        test_the_place_is_there("tjworker.settings:Settings.nothing_of_the_kind")


JOB_API = """
    ReplicaIndexLabel ReplicaTypeLabel ReplicaNameLabel GroupNameLabel JobNameLabel JobRoleLabel KubeDLPrefix
    AnnotationGitSyncConfig AnnotationTenancyInfo AnnotationNetworkMode AnnotationTensorBoardConfig
    ReplicaTypeTensorBoard RegisterDefaults CleanPodPolicy CleanPodPolicyUndefined CleanPodPolicyAll
    CleanPodPolicyRunning CleanPodPolicyNone ControllerInterface ControllerName GetAPIGroupVersionKind
    GetAPIGroupVersion GetGroupNameLabelValue GetJobFromInformerCache GetJobFromAPIClient GetPodsForJob
    GetServicesForJob DeleteJob UpdateJobStatus UpdateJobStatusInApiServer CreateService DeleteService CreatePod
    DeletePod SetClusterSpec GetDefaultContainerName GetDefaultContainerPortName GetDefaultContainerPortNumber
    GetReconcileOrders IsMasterRole JobCondition JobCondition.LastUpdateTime JobCondition.LastTransitionTime
    DeepCopy DeepCopyInto JobConditionType JobCreated JobRunning JobRestarting JobSucceeded JobFailed JobStatus
    JobStatus.Conditions JobStatus.ReplicaStatuses JobStatus.StartTime JobStatus.CompletionTime
    JobStatus.LastReconcileTime NetworkMode HostNetworkMode ReplicaSpec ReplicaSpec.Replicas
    ReplicaSpec.Template ReplicaSpec.RestartPolicy ReplicaStatus ReplicaStatus.Active ReplicaStatus.Succeeded
    ReplicaStatus.Failed ReplicaStatus.Evicted ReplicaType RestartPolicy RestartPolicyAlways
    RestartPolicyOnFailure RestartPolicyNever RestartPolicyExitCode RunPolicy RunPolicy.CleanPodPolicy
    RunPolicy.TTLSecondsAfterFinished RunPolicy.ActiveDeadlineSeconds RunPolicy.BackoffLimit
    RunPolicy.SchedulingPolicy SchedulingPolicy SchedulingPolicy.MinAvailable
"""
"""Every name of the package v1 of KubeDL 0.3, fields of structs with their type."""


def test_every_name_of_kubedls_job_api_has_its_row() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## KubeDL: job API")[2]
    named = {name for row in ROW.finditer(section) for name in re.findall(r"[\w.]*\w", row["name"])}
    assert [name for name in JOB_API.split() if name not in named] == []


def test_every_row_says_where_or_why() -> None:
    told, lines = rows(), PAGE.read_text(encoding="utf-8").splitlines()
    tables = lines.count("| Upstream | Here | Why so |")
    assert (tables, len(told)) == (5, sum(line.startswith("| ") for line in lines) - tables), "a row is broken"
    for row in told:
        here, why = row["here"], row["why"]
        assert QUOTED.search(here) or (here in ("not needed", "to come") and why), (
            f"{row['name']}: says neither where nor why"
        )


def test_no_name_is_told_twice_in_one_section() -> None:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        names = [row["name"] for row in ROW.finditer(section)]
        assert sorted(set(names)) == sorted(names)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (Path(PAGE).parent / link).exists()] == []
