"""What a viewer sees is what the watcher saw: an object goes through the projection, a real Redis, the board and the
template, and each of its values stands in its cell."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import pytest

from tests.conftest import RealRedis
from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.page_world import PageWorld
from tjworker.api.labels import JOB_UID
from tjworker.api.node_requests import WAITING, NodeRequests, encode_node_requests
from tjworker.api.observed import NodeRecord
from tjworker.api.resources import NODES, PODS
from tjworker.api.status import Condition, ReplicaStatus, TrainerStatus
from tjworker.base import JobKey
from tjworker.history.records import Entry, Summary
from tjworker.page.board import AGE_SECONDS, JobRow, PodRow
from watcher.projection import project

KIND = "aitrainingjobs.elasticdeeplearning.ai"
KEY = JobKey(f"{KIND}/default/digits")
STATUS: dict[str, Any] = {
    "phase": "Running",
    "restarts": 3,
    "replica_statuses": {"trainer": ReplicaStatus(desired=2, active=1), "ps": ReplicaStatus(desired=2, active=2)},
    "trainer_status": TrainerStatus(progressPercentage=41),
    "message": "1 of 2 trainers run",
}


@pytest.fixture
def page(real_redis: RealRedis) -> Iterator[PageWorld]:
    with PageWorld(real_redis).served() as world:
        yield world


def cells(html: str, part: str = "") -> list[dict[str, str]]:
    """Of each row of a table: its texts by their labels; the row's head is ''. `part`: the id of an element before."""
    _, _, after = html.partition(f'id="{part}"') if part else ("", "", html)
    table = after.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        {
            label or "": text_of(inner)
            for label, inner in re.findall(
                r'<t[hd](?: [^>]*?data-label="([^"]*)"| scope="row")[^>]*>(.*?)</t[hd]>', row, re.DOTALL
            )
        }
        for row in table.split("</tr>")
        if "<t" in row
    ]


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def pod(job: Mapping[str, Any], name: str, node: str, phase: str) -> dict[str, Any]:
    meta = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": f"uid-{name}",
            "resourceVersion": "99999",
            "labels": {JOB_UID: meta["uid"]},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "aitj-main"}]},
        "status": {"phase": phase},
    }


def add_pods(page: PageWorld, job: Mapping[str, Any]) -> None:
    changes = [
        project(PODS, pod(job, name, node, phase))
        for name, node, phase in (("b", "node-a", "Running"), ("a", "", "Pending"), ("c", "node-a", "Failed"))
    ]
    page.store.projection.apply(1, [found.change for found in changes if found is not None])


def test_a_row_of_the_board_has_each_value_of_its_job(page: PageWorld) -> None:
    made = page.add(make_job("digits").workers(2).role("ps", 2).status(**STATUS))
    add_pods(page, made)
    row = page.reader.refresh().jobs[KEY]
    assert row == JobRow(
        key=KEY,
        resource=AITRAININGJOBS,
        namespace="default",
        name="digits",
        kind="AITrainingJob",
        uid=made["metadata"]["uid"],
        phase="Running",
        created_at=made["metadata"]["creationTimestamp"],
        replicas="3 of 4",
        restarts=3,
        progress=41,
        message="1 of 2 trainers run",
        pods=(PodRow("a", "", "Pending"), PodRow("b", "node-a", "Running")),
        mark=row.mark,
    )
    page.change(dict(made), phase="Failed", completionTime="2026-11-24T10:00:00Z", conditions=[])
    page.reader._now = lambda: time.time() + 2 * AGE_SECONDS
    ended = page.reader.refresh().jobs[KEY]
    assert (ended.phase, ended.ended_at, ended.pods) == ("Failed", "2026-11-24T10:00:00Z", ())
    assert ended.mark != row.mark


def test_each_column_of_the_list_shows_its_value(page: PageWorld) -> None:
    page.add(make_job("digits").workers(2).role("ps", 2).status(**STATUS))
    page.add(make_job("words").workers(1))
    page.reader._now = time.time
    digits, words = sorted(cells(page.get("/").body, "jobs"), key=lambda row: row[""])
    assert digits.pop("Age") == words.pop("Age")
    assert digits == {
        "": "digits default · AITrainingJob",
        "Phase": "Running",
        "Replicas": "3 of 4",
        "Restarts": "3",
        "Progress": "41 %",
        "Message": "1 of 2 trainers run",
    }
    assert words == {
        "": "words default · AITrainingJob",
        "Phase": "New",
        "Replicas": "\u2013",
        "Restarts": "0",
        "Progress": "\u2013",
        "Message": "",
    }


def test_each_column_of_the_history_shows_its_value(page: PageWorld) -> None:
    summary = Summary(
        KIND,
        "team-a",
        "digits",
        "uid-1",
        "AITrainingJob",
        "Failed",
        "2020-01-01T00:00:00Z",
        "2020-01-02T00:00:00Z",
        "2020-01-03T00:00:00Z",
        4,
        "it is broken",
    )
    page.history.put([Entry("team-a", "uid-1", summary, 1e12)], 0)
    body = page.get("/history").body
    [row] = cells(body, "jobs")
    ended, deleted = row.pop("Ended"), row.pop("Deleted")
    assert row == {
        "": "digits team-a · AITrainingJob",
        "Last phase": "Failed",
        "Restarts": "4",
        "Message": "it is broken",
    }
    assert int(ended.removesuffix("d ago")) == int(deleted.removesuffix("d ago")) + 1
    assert 'href="/history/team-a/uid-1"' in body
    assert "kept for 7d" in body


def test_the_cluster_shows_each_node_with_what_is_asked_of_it(page: PageWorld) -> None:
    made = page.add(make_job("digits").workers(2).status(phase="Running"))
    add_pods(page, made)
    page.site.reader._now = time.time
    node = {
        "metadata": {"name": "node-a", "uid": "u", "resourceVersion": "1"},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "4", "memory": "8G", "pods": "110", "nvidia.com/gpu": "2"}},
    }
    seen = project(NODES, node)
    assert seen is not None
    assert isinstance(seen.node_record, NodeRecord)
    asked = NodeRequests(cpu_milli=1500, memory_bytes=2_000_000_000, pods=3, extended=(("nvidia.com/gpu", 1),))
    page.store.projection.apply_nodes(1, {"node-a": seen.change.record})
    records = {
        "node-a": encode_node_requests(asked),
        WAITING: encode_node_requests(NodeRequests(cpu_milli=500, pods=2)),
    }
    page.store.projection.apply_node_requests(1, records, whole=True)
    body = page.get("/cluster").body
    assert cells(body, "nodes") == [
        {
            "": "node-a",
            "State": "Cordoned",
            "CPU requested": "1.5 of 4",
            "Memory (GB)": "2 of 8",
            "Pods": "3 of 110",
            "Jobs there": "default/digits 1",
        }
    ]
    figures = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", body))
    assert figures == {
        "Nodes that take pods": "0 of 1",
        "Pods without a node": "2, for 0.5 CPUs",
        "Unfinished jobs": "1",
        "Queued": figures["Queued"],
        "Being reconciled": "0",
        "Delayed": "0",
        "Failing": "0",
    }


def test_without_the_right_to_list_nodes_a_viewer_sees_the_queue_alone(page: PageWorld) -> None:
    page.add(make_job("digits").workers(2).status(phase="Running"), "team-a")
    body = page.get("/cluster", "team-a").body
    assert "Your token may not list nodes." in body
    assert next(name for name, _ in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", body)) == "Unfinished jobs"


def test_a_job_without_a_message_shows_that_of_its_last_condition(page: PageWorld) -> None:
    condition = Condition(
        type="Running", status="True", reason="R", message="all run", lastTransitionTime="2026-01-01T00:00:00Z"
    )
    page.add(make_job("digits").workers(2).status(phase="Running", conditions=(condition,)))
    assert page.reader.refresh().jobs[KEY].message == "all run"
