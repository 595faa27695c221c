"""What is kept of a job and of a pod: whole records, compared with the objects that they are of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tjworker.api import labels
from tjworker.base import GroupResource
from tjworker.history import records
from tjworker.history.parts import parts_of, story_of
from tjworker.history.records import Entry, Moment, Summary, by_creation, kept_job, kept_pod, read_summary, summary_of

KIND = GroupResource("aitrainingjobs.elasticdeeplearning.ai")
CREATED, ENDED, GONE = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"
META = {
    "name": "digits",
    "namespace": "team-a",
    "uid": "uid-1",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": CREATED,
    "deletionTimestamp": GONE,
    "labels": {"mine": "yes"},
}
TEMPLATE = {
    "containers": [
        {
            "name": "a",
            "image": "i",
            "command": ["run"],
            "args": ["--fast"],
            "resources": {"limits": {"cpu": "1"}},
            "ports": [{"containerPort": 1}],
            "env": [{"name": "TOKEN", "value": "hunter2"}],
            "volumeMounts": [{"name": "hunter2"}],
        }
    ],
    "initContainers": [{"name": "first", "image": "j", "env": [{"name": "TOKEN", "value": "hunter2"}]}],
    "volumes": [{"name": "hunter2"}],
    "nodeSelector": {"disk": "hunter2"},
}
JOB: dict[str, Any] = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {
        **META,
        "annotations": {
            "elasticdeeplearning.ai/a": "1",
            "kubedl.io/a": "2",
            "kubedl.io/git-sync-config": '{"envs":[{"name":"TOKEN","value":"hunter2"}]}',
            "kubeflow.org/a": "3",
            "paddlepaddle.org/a": "4",
            "elasticdeeplearning.ai/long": "x" * (records.MOST_ANNOTATION_CHARS + 1),
            "elasticdeeplearning.ai/fits": "x" * records.MOST_ANNOTATION_CHARS,
            "other.example.com/a": "hunter2",
        },
        "managedFields": [{"manager": "hunter2"}],
        "ownerReferences": [{"name": "hunter2"}],
    },
    "spec": {
        "replicaSpecs": {
            "trainer": {"replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": TEMPLATE}}
        },
        "trainer": {"image": "i", "env": [{"value": "hunter2"}], "envFrom": ["hunter2"], "numNodes": 2},
        "envs": ["hunter2"],
        "imagePullSecrets": ["hunter2"],
        "volumes": ["hunter2"],
    },
    "status": {"phase": "Failed", "completionTime": ENDED, "restarts": 3, "message": "why"},
}
SUMMARY = Summary(str(KIND), "team-a", "digits", "uid-1", "AITrainingJob", "Failed", CREATED, ENDED, GONE, 3, "why")


def test_what_is_kept_of_a_job() -> None:
    assert kept_job(JOB) == {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {
            **META,
            "annotations": {
                "elasticdeeplearning.ai/a": "1",
                "kubedl.io/a": "2",
                "kubeflow.org/a": "3",
                "paddlepaddle.org/a": "4",
                "elasticdeeplearning.ai/fits": "x" * records.MOST_ANNOTATION_CHARS,
            },
        },
        "spec": {
            "replicaSpecs": {
                "trainer": {
                    "replicas": 2,
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "a",
                                    "image": "i",
                                    "command": ["run"],
                                    "args": ["--fast"],
                                    "resources": {"limits": {"cpu": "1"}},
                                    "ports": [{"containerPort": 1}],
                                }
                            ],
                            "initContainers": [{"name": "first", "image": "j"}],
                        },
                    },
                }
            },
            "trainer": {"image": "i", "numNodes": 2},
        },
        "status": JOB["status"],
    }


def test_the_runtime_in_the_status_of_a_trainjob_is_kept_without_variables_and_volumes() -> None:
    def snapshot(container: dict[str, Any], **pod: Any) -> dict[str, Any]:
        kept = {"name": "node", "image": "i", "volumeMounts": [{"name": "initializer"}]}
        template = {"spec": {"containers": [{**kept, **container}], "nodeSelector": {"disk": "ssd"}, **pod}}
        return {"name": "torch", "spec": {"mlPolicy": {"numNodes": 2}, "jobs": [{"template": template}]}}

    secret = {"env": [{"name": "TOKEN", "value": "hunter2"}], "envFrom": ["hunter2"]}
    status = {"operator": {"phase": "Failed", "snapshot": snapshot(secret, volumes=[{"name": "hunter2"}])}}
    kept = kept_job({**JOB, "status": status})["status"]
    assert kept == {"operator": {"phase": "Failed", "snapshot": snapshot({})}}


def test_a_job_that_is_too_large_is_kept_without_its_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(orjson.dumps(kept_job(JOB)))
    monkeypatch.setattr(records, "MOST_JOB_BYTES", size)
    assert kept_job(JOB)["spec"]
    monkeypatch.setattr(records, "MOST_JOB_BYTES", size - 1)
    assert kept_job(JOB) == {**kept_job(JOB), "spec": {}}
    assert kept_job(JOB)["status"] == JOB["status"]


POD: dict[str, Any] = {
    "metadata": {
        "name": "digits-0",
        "namespace": "team-a",
        "uid": "p0",
        "creationTimestamp": CREATED,
        "resourceVersion": "9",
        "labels": {labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: "0", "app": "mine"},
        "annotations": {"a": "hunter2"},
    },
    "spec": {"nodeName": "node-a", "containers": [{"env": "hunter2"}]},
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "m" * 2_000,
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED, "message": "m"},
            {"type": "Ready", "status": "True", "lastTransitionTime": CREATED},
        ],
        "containerStatuses": [
            {
                "name": "a",
                "restartCount": 2,
                "image": "i",
                "state": {
                    "terminated": {
                        "startedAt": CREATED,
                        "finishedAt": ENDED,
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "signal": 9,
                        "message": "hunter2",
                    }
                },
            },
            {"name": "b", "state": {"running": {"startedAt": CREATED}}},
        ],
    },
}


def test_what_is_kept_of_a_pod() -> None:
    want = {
        "metadata": {
            "name": "digits-0",
            "namespace": "team-a",
            "uid": "p0",
            "creationTimestamp": CREATED,
            "labels": {labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: "0"},
        },
        "spec": {"nodeName": "node-a"},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "m" * records.MOST_WORDS_CHARS,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED}],
            "containerStatuses": [
                {
                    "name": "a",
                    "restartCount": 2,
                    "state": {
                        "terminated": {
                            "startedAt": CREATED,
                            "finishedAt": ENDED,
                            "exitCode": 137,
                            "reason": "OOMKilled",
                            "signal": 9,
                        }
                    },
                },
                {"name": "b", "restartCount": 0, "state": {"running": {"startedAt": CREATED}}},
            ],
        },
    }
    assert kept_pod(POD) == want
    gone = {**want, "metadata": {**want["metadata"], records.GONE_AT: GONE}}  # type: ignore[dict-item]
    assert kept_pod(POD, gone_at=GONE) == gone


SUMMARIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it failed": ({}, {}),
    "it runs: a time of an earlier end is none": ({"phase": "Running"}, {"phase": "Running", "ended_at": ""}),
    "its message is long": ({"message": "m" * 2_000}, {"message": "m" * records.MOST_WORDS_CHARS}),
    "its restarts make no sense": ({"restarts": "many"}, {"restarts": 0}),
}


@pytest.mark.parametrize("sentence", SUMMARIES)
def test_the_row_of_a_job(sentence: str) -> None:
    status, want = SUMMARIES[sentence]
    raw = {**JOB, "status": {**JOB["status"], **status}}
    assert summary_of(KIND, raw, deleted_at=GONE) == replace(SUMMARY, **want)


WRITTEN: dict[str, tuple[bytes, Summary | None]] = {
    "a summary": (SUMMARY.to_json(), SUMMARY),
    "one of a later version, with a field more": (SUMMARY.to_json()[:-1] + b',"later":1}', SUMMARY),
    "one of an earlier version": (
        b'{"resource":"r","namespace":"n","name":"j","uid":"u"}',
        Summary("r", "n", "j", "u"),
    ),
    "a phase that is a number": (b'{"resource":"r","namespace":"n","name":"j","uid":"u","phase":1}', None),
    "restarts that are a text": (b'{"resource":"r","namespace":"n","name":"j","uid":"u","restarts":"1"}', None),
    "no JSON": (b"{", None),
}


@pytest.mark.parametrize("sentence", WRITTEN)
def test_a_summary_is_read(sentence: str) -> None:
    written, want = WRITTEN[sentence]
    assert read_summary(written) == want


def test_parts_come_back_in_the_order_of_their_times_and_what_cannot_be_read_is_left_out() -> None:
    late = {"metadata": {"name": "a", "creationTimestamp": ENDED}}
    first = {"metadata": {"name": "z", "creationTimestamp": CREATED}}
    second = {"metadata": {"name": "b", "creationTimestamp": ENDED}}
    moments = [Moment(ENDED, "Failed", "why"), Moment(CREATED, "Running", "all/run")]
    entry = Entry("team-a", "uid-1", SUMMARY, 0.0, pods={"3": second, "1": late, "2": first}, moments=moments)
    parts = parts_of(entry, orjson.dumps)
    assert list(parts) == ["pod/3", "pod/1", "pod/2", f"at/{ENDED}/Failed", f"at/{CREATED}/Running"]
    story = story_of(SUMMARY, b'{"spec":{}}', {**parts, "pod/4": b"{", "summary": b"x"}, records.read_object)
    assert (story.summary, story.job) == (SUMMARY, {"spec": {}})
    assert story.pods == (first, late, second)
    assert story.moments == (moments[1], moments[0])
    assert by_creation([second, late]) == (late, second)
