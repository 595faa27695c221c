"""Plays one case on one cluster and returns the answers, step by step. The test compares them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from localcluster_tests.contract.api.doors import Answer, Door, Lines
from localcluster_tests.contract.api.masks import Masks
from localcluster_tests.contract.api.script import CLUSTER_WIDE, HOW, PLURALS, SUBRESOURCE_KINDS, Case, Step
from localcluster_tests.contract.api.views import answer, event, pick

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<path>[^}]+)\}|(?P<word>\w+))")
_EVENT_SECONDS = 120.0


def play(case: Case, door: Door) -> Iterator[tuple[Step, str]]:
    """Each step and the answer that it got. The namespace is made before and deleted after, whatever happens."""
    with _namespace(door) as namespace:
        player = _Player(case, door, namespace)
        try:
            for step in case.steps:
                yield step, player.do(step)
        finally:
            player.close()


@contextmanager
def _namespace(door: Door) -> Iterator[str]:
    # Letters that no generated name has, so that it is never masked as one.
    name = "c-" + uuid.uuid4().hex[:8].translate(str.maketrans("0123456789", "ghijaeioua"))
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    response = door.send("POST", "/api/v1/namespaces", json.dumps(made).encode(), {"content-type": "application/json"})
    assert response.status == 201, response.body
    try:
        yield name
    finally:
        door.send("DELETE", f"/api/v1/namespaces/{name}", b"", {})


class _Player:
    def __init__(self, case: Case, door: Door, namespace: str) -> None:
        self._case = case
        self._door = door
        self._namespace = namespace
        self._masks = Masks(namespace)
        self._saved: dict[str, Any] = {}
        self._watches: dict[str, Lines] = {}

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()

    def do(self, step: Step) -> str:
        if step.verb == "EVENTS":
            return self._events(step)
        if step.verb == "WATCH":
            return self._open(step)
        if step.verb not in ("WAIT", "HOLDS"):
            return self._request(step)
        return self._waited(step)

    def _waited(self, step: Step) -> str:
        text, before = "", self._masks

        def is_wanted() -> bool:
            nonlocal text
            self._masks = before.copy()
            text = self._request(step)
            return text == step.want

        if step.verb == "WAIT":
            self._door.until(is_wanted, step.seconds)
        else:
            self._door.until(lambda: not is_wanted(), step.seconds)
        return text

    def _request(self, step: Step) -> str:
        target, body, headers = self._target(step), self._body(step), {}
        if body:
            headers["content-type"] = HOW.get(step.how, step.how) if step.how else "application/json"
            headers["accept"] = "application/json"
        elif step.how:
            headers["accept"] = HOW.get(step.how, step.how)
        headers["user-agent"] = "contract/1"
        response = self._door.send(step.method, target, body, headers)
        parsed = _parsed(response)
        if step.save:
            self._saved[step.save] = parsed
        return answer(response.status, response.headers.get("warning", ""), parsed, step.views, self._masks)

    # -- watches -----------------------------------------------------------------------------------
    def _open(self, step: Step) -> str:
        target = self._target(step)
        target += ("&" if "?" in target else "?") + "watch=1"
        headers = {"accept": HOW.get(step.how, step.how)} if step.how else {}
        opened = self._door.open(target, headers)
        if isinstance(opened, Answer):
            return answer(opened.status, "", _parsed(opened), (), self._masks)
        self._watches[step.save] = opened
        return "200"

    def _events(self, step: Step) -> str:
        watch = self._watches[step.target]
        seen: list[str] = []
        left = 1_000_000 if step.body == "end" else int(step.body)
        while left > 0:
            try:
                line = watch.take(_EVENT_SECONDS)
            except TimeoutError:
                return "; ".join([*seen, "nothing more"])
            if not line:
                return "; ".join([*seen, "the end"])
            shown = json.loads(line)
            if "type" not in shown:
                return answer(200, "", shown, step.views, self._masks)  # the server took it for a plain GET
            if shown["type"] == "BOOKMARK" and step.how != "all":
                continue
            if step.save:
                self._saved[step.save] = shown["object"]
            seen.append(event(shown, step.views, self._masks))
            left -= 1
        return "; ".join(seen)

    # -- what is sent ------------------------------------------------------------------------------
    def _target(self, step: Step) -> str:
        target = self._filled(step.target)
        if target.startswith("/"):
            return target
        plural = re.split(r"[/?]", target)[0]
        if plural in CLUSTER_WIDE:
            return f"{CLUSTER_WIDE[plural][0]}/{target}"
        return f"{PLURALS[plural][0]}/namespaces/{self._namespace}/{target}"

    def _body(self, step: Step) -> bytes:
        text = self._filled(step.body)
        if text.startswith("!"):
            return text[1:].encode()
        if not text:
            return b""
        body = yaml.safe_load(text)
        if isinstance(body, dict) and (step.method in ("POST", "PUT") or step.how == "apply"):
            body = {**self._head(step), **body}
        return json.dumps(body).encode()

    @staticmethod
    def _head(step: Step) -> dict[str, str]:
        parts = step.target.partition("?")[0].split("/")
        known = {**PLURALS, **CLUSTER_WIDE}.get(parts[0])
        if known is None:
            return {}
        group_version, kind = SUBRESOURCE_KINDS.get(parts[2] if len(parts) > 2 else "", known[1:])
        return {"apiVersion": group_version, "kind": kind}

    def _filled(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[0] == "$$":
                return "$"
            if path := found["path"]:
                name, _, inside = path.partition(".")
                return pick(self._saved[name], inside)
            word = found["word"]
            return self._namespace if word == "ns" else self._filled(self._case.definitions[word])

        return _VARIABLE.sub(value, text)


def _parsed(response: Answer) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        return response.body.decode(errors="replace")
