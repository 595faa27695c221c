"""TrainJobs of Kubeflow's Trainer on Kubernetes itself: what its API server takes and refuses by the shipped CRDs, and
a life with real processes. What must hold here is what `tests/scenarios/test_trainer.py` shows on the local cluster."""

from __future__ import annotations

import copy
import json

import pytest

from tests.e2e.stack import Json, LocalStack, until
from tests.scenarios import test_trainer_upstream as upstream
from tests.scenarios.test_trainer import COMPLETE, REFUSED, WRONG_FRAMEWORKS, storing
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.trainer import RUNTIMES, train_job


def asked(stack: LocalStack, manifest: Json) -> str:
    """What the API server says to it, without keeping it."""
    return stack.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest), check=False)


@pytest.mark.parametrize("name", RUNTIMES)
def test_it_takes_the_runtimes_of_trainer(stack: LocalStack, name: str) -> None:
    assert "created (server dry run)" in asked(stack, RUNTIMES[name])


@pytest.mark.parametrize("sentence", upstream.TAKEN)
def test_it_takes_what_trainer_takes(stack: LocalStack, sentence: str) -> None:
    assert "created (server dry run)" in asked(stack, upstream.TAKEN[sentence])


WRONG = {**REFUSED, **WRONG_FRAMEWORKS, **upstream.REFUSED}


@pytest.mark.parametrize("sentence", WRONG)
def test_it_refuses_what_the_local_cluster_refuses(stack: LocalStack, sentence: str) -> None:
    manifest, says = WRONG[sentence]
    told = asked(stack, manifest)
    assert "is invalid" in told, told
    assert says in told


def test_what_of_a_job_cannot_change(stack: LocalStack) -> None:
    stack.kubectl("create", "-f", "-", stdin=json.dumps(train_job("nowhere", name="kept", trainer={"numNodes": 2})))
    for patch in ({"trainer": {"numNodes": 3}}, {"runtimeRef": {"name": "plain"}}):
        words = ("patch", "trainjob", "kept", "--type=merge", "-p", json.dumps({"spec": patch}))
        assert "field is immutable" in stack.kubectl(*words, check=False)
    stack.kubectl("delete", "trainjob", "kept")


def test_what_of_a_patch_cannot_change(stack: LocalStack) -> None:
    kept = upstream.patching(upstream.PATCHED, name="patched", suspend=True)
    stack.kubectl("create", "-f", "-", stdin=json.dumps(kept))
    for field, value in upstream.STAYS.items():
        spec = upstream.patching({**upstream.PATCHED, field: value})["spec"]
        told = stack.kubectl(
            "patch", "trainjob", "patched", "--type=merge", "-p", json.dumps({"spec": spec}), check=False
        )
        assert f"template.spec.{field}: Invalid value" in told, told
    stack.kubectl("delete", "trainjob", "patched")


@pytest.mark.parametrize("field", upstream.BEYOND)
def test_what_no_patch_may_change(stack: LocalStack, field: str) -> None:
    told = asked(stack, upstream.patching(*upstream.BEYOND[field]))
    assert "unknown field" in told, told
    assert field in told, told


def status(stack: LocalStack, name: str) -> Json:
    return dict(json.loads(stack.kubectl("get", "trainjob", name, "-o", "json"))["status"])


def test_a_trainjob_lives_and_ends_with_one_condition(stack: LocalStack) -> None:
    runtime, job = yaml.safe_load_all((ROOT / "examples/trainer/trainjob.yaml").read_text(encoding="utf-8"))
    job = copy.deepcopy(job)
    program = (
        "import os, time; print(os.environ['PET_NODE_RANK'], os.environ['PET_MASTER_ADDR'], flush=True); time.sleep(3)"
    )
    del job["metadata"]["annotations"]
    job["spec"]["trainer"]["command"] = ["python", "-S", "-c", program]
    stack.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all([runtime, job]))
    stack.kubectl("wait", "--for=condition=Complete", "trainjob/trainjob", "--timeout=200s")
    told = status(stack, "trainjob")
    assert [[c["type"], c["status"], c["reason"], c["message"]] for c in told["conditions"]] == [COMPLETE]
    (counted,) = told["jobsStatus"]
    assert (counted["name"], counted["succeeded"], counted["active"]) == ("node", 1, 0)
    assert stack.kubectl("logs", "trainjob-node-0-1") == "1 trainjob-node-0-0.trainjob\n"
    stack.kubectl("delete", "trainjob", "trainjob")


def test_a_claim_is_made_for_the_job_and_goes_with_it(stack: LocalStack) -> None:
    runtime = storing()
    runtime["metadata"]["name"] = "storing"
    stack.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(runtime))
    stack.kubectl("create", "-f", "-", stdin=json.dumps(train_job("storing", name="stores", trainer={})))
    claim = ("get", "persistentvolumeclaim", "data-stores", "--ignore-not-found", "-o", "name")
    until("its claim is there", lambda: "data-stores" in stack.kubectl(*claim), context=lambda: stack.output[-2000:])
    stack.kubectl("delete", "trainjob", "stores")
    until("its claim has gone", lambda: not stack.kubectl(*claim).strip(), context=lambda: stack.output[-2000:])
