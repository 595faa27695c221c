"""A pytest plugin for a test suite of other people, run as it is against `tj up`: nodes of the local stack start
processes and pull no images, so a program that only an image has gets a stand-in that prints, waits and ends well.

It changes the body of a job on its way to the API server, and nothing of the tests.
"""

import os
import sys
from typing import Any

from kubernetes import client

PROGRAM = "import os, time; print('stand-in of', os.environ['HOSTNAME'], flush=True); time.sleep(3)"
COMMAND = [sys.executable, "-S", "-c", PROGRAM]
ONLY_IN_IMAGES = ("python", "python3", "mpirun")
"""First words of commands whose files the image has."""


def pytest_configure() -> None:
    create = client.CustomObjectsApi.create_namespaced_custom_object

    def create_with_stand_ins(self: Any, group: str, version: str, namespace: str, plural: str, body: Any) -> Any:
        manifest = self.api_client.sanitize_for_serialization(body)
        for field, roles in manifest["spec"].items():
            if field.endswith("ReplicaSpecs"):
                for name, role in roles.items():
                    for container in role["template"]["spec"]["containers"]:
                        replace_program(container, serves=(plural, name) == ("mpijobs", "Worker"))
        return create(self, group, version, namespace, plural, manifest)

    setattr(client.CustomObjectsApi, "create_namespaced_custom_object", create_with_stand_ins)  # noqa: B010 - a patch


def replace_program(container: dict[str, Any], *, serves: bool) -> None:
    """`serves`: the container runs for as long as the operator's own command for it does."""
    command = container.get("command") or []
    if command and command[0] not in ONLY_IN_IMAGES:
        # A function of the user's, which the client wrapped into a shell script: it needs `torchrun` alone.
        folder = os.environ["TJ_SDK_PROGRAMS"]
        path = {"name": "PATH", "value": f"{folder}:{os.environ['PATH']}"}
        container["env"] = [*(container.get("env") or ()), path]
        return
    container.pop("args", None)
    container.pop("command", None)
    if not serves:
        container["command"] = COMMAND
