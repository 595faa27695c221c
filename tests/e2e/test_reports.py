"""A training reports its progress: the whole way, with real processes, from the program to `tj describe`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.stack import LocalStack, until
from tests.support.paths import ROOT
from tests.support.scraping import value

pytestmark = [
    pytest.mark.long,  # `reports` and its client have their units; every other process has its life in `make test`
    pytest.mark.e2e,
    pytest.mark.xdist_group("reports"),
    pytest.mark.skipif(sys.platform != "linux", reason="pods' volumes need mount namespaces"),
]
SENDS = """
import json, os, sys, time, urllib.error, urllib.request, ssl
url, own = os.environ["KUBEFLOW_TRAINER_SERVER_URL"], "/status"
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
tls = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
for name in sys.argv[1:]:
    body = json.dumps({"trainerStatus": {"progressPercentage": 7}}).encode()
    there = url.rsplit("/", 2)[0] + "/" + name + "/status"
    request = urllib.request.Request(there, body, {"Authorization": "Bearer " + token})
    try:
        print(name, urllib.request.urlopen(request, timeout=30, context=tls).status, flush=True)
    except urllib.error.HTTPError as error:
        print(name, error.code, json.load(error)["reason"], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    one = LocalStack(tmp_path_factory.mktemp("reports") / "state")
    try:
        one.start()
        yield one
    finally:
        one.clear()


def test_digits_reports_and_another_jobs_token_is_refused(stack: LocalStack) -> None:
    stack.kubectl("apply", "-f", str(ROOT / "examples/digits/job.yaml"))
    until("digits has reported", lambda: told(stack).get("progressPercentage", 0) > 0, context=lambda: explain(stack))
    described = stack.tj("describe", "digits").stdout
    assert "Progress" in described, described
    assert "accuracy" in described, described

    stack.kubectl("apply", "-f", "-", stdin=json.dumps(sender("sender", "digits", "sender")))
    until(
        "both are answered",
        lambda: len(stack.tj("logs", "sender").stdout.splitlines()) >= 2,
        context=lambda: explain(stack),
    )
    said = stack.tj("logs", "sender").stdout
    assert "digits 403 Forbidden" in said, said
    assert "sender 200" in said, said

    until("digits has ended", lambda: stack.status("digits").get("phase") == "Succeed", context=lambda: explain(stack))
    until("all of it is told", lambda: told(stack).get("progressPercentage") == 100, context=lambda: explain(stack))
    until(
        "the refusal is counted",
        lambda: value(stack.metrics("reporter"), "tj_progress_reports_total", result="Forbidden") == 1,
        context=lambda: explain(stack),
    )


def sender(name: str, *jobs: str) -> dict[str, Any]:
    container = {"name": "aitj-main", "image": "none", "command": ["python", "-S", "-c", SENDS, *jobs]}
    role = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"trainer": role}},
    }


def told(stack: LocalStack) -> dict[str, Any]:
    status = stack.status("digits")
    return dict(status.get("trainerStatus") or {})


def explain(stack: LocalStack) -> str:
    log = stack.paths.log("reporter")
    logs = subprocess.run(["tail", "-5", str(log)], capture_output=True, text=True, check=False).stdout
    return json.dumps(stack.status("digits"), indent=1)[-2500:] + logs + stack.tj("logs", "sender").stdout
