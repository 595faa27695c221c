"""Every request is answered as a real kube-apiserver answered it: code, warnings and the whole body."""

from __future__ import annotations

import difflib
import json
import random
from pathlib import Path
from urllib.parse import parse_qsl

from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response
from tests.contract.kubectl.probe import comparable, encode, title
from tests.contract.kubectl.requests import STEPS

ANSWERS = Path(__file__).with_name("answers.json")
_NOW = 1_800_000_000.0


class _Clock:
    now = _NOW

    def __call__(self) -> float:
        return self.now


def test_every_request_is_answered_as_by_a_real_kube_apiserver() -> None:
    recorded = json.loads(ANSWERS.read_text())
    assert [entry["request"] for entry in recorded] == [title(step) for step in STEPS]
    clock = _Clock()
    apiserver = ApiServer(clock, random.Random(5))
    differences = []
    for step, entry in zip(STEPS, recorded, strict=True):
        path, _, query = step[1].partition("?")
        body, content_type = encode(step)
        headers = {"accept": "application/json", "user-agent": "probe/1", "content-type": content_type}
        answer = apiserver.handle(Request(step[0], path, dict(parse_qsl(query, keep_blank_values=True)), body, headers))
        if isinstance(answer, Response):
            got = comparable(answer.status, answer.headers, answer.body)
        else:
            clock.now += 2
            apiserver.tick()
            assert answer.closed
            got = comparable(200, {}, b"".join(answer.poll()))
        if got != entry["answer"]:
            lines = difflib.unified_diff(
                entry["answer"].splitlines(), got.splitlines(), "kube-apiserver", "local", lineterm="", n=1
            )
            differences.append("\n".join([entry["request"], *lines]))
    assert not differences, "\n\n".join(differences)
