"""Converts Volcano's plugins to a frameworkType, and to the variables that programs for Volcano read. Pure.

Each variable refers to one of the operator's own, as $(NAME). A plugin without a counterpart is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tjworker.api.model import FrameworkType
from tjworker.api.naming import env_name
from tjworker.convert.report import Left
from tjworker.convert.volcano.spec import JobSpec

_FRAMEWORKS: Mapping[str, tuple[FrameworkType, str, int]] = {
    "pytorch": ("pytorch", "pytorchjob-port", 23456),
    "tensorflow": ("tensorflow", "tfjob-port", 2222),
}
_ROLES = ("master", "worker", "ps", "chief", "evaluator")
_INSTEAD: Mapping[str, str] = {
    "ssh": "put a key pair into a Secret and mount it at /root/.ssh of the templates, or use frameworkType mpi"
    " (docs/frameworks/mpi.md)",
    "ray": "start Ray with the variables of the roles (docs/jobs.md): <ROLE>_INSTANCES has the host names",
    "mpi": "read MPI_HOST, which is set; for its ssh keys see the plugin ssh",
}


@dataclass(slots=True)
class Plugged:
    framework: FrameworkType = ""
    port: tuple[str, int] | None = None
    """(name, number) of a port of every pod."""
    env: dict[str, str] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(spec: JobSpec) -> Plugged:
    got = Plugged()
    names = [spec.task_name(i) for i in range(len(spec.tasks))]
    for name, args in spec.plugins.items():
        if name == "env":
            # Volcano sets both names.
            got.env |= dict.fromkeys(("VK_TASK_INDEX", "VC_TASK_INDEX"), "$(TRAININGJOB_REPLICA_INDEX)")
        elif name == "svc":
            _services(got, names, args)
        elif name in _FRAMEWORKS:
            _framework(got, name, names, args)
        else:
            _other(got, name, names, args)
    return got


def _services(got: Plugged, names: list[str], args: list[str]) -> None:
    for name in names:
        role = env_name(name)
        got.env |= {f"VC_{role}_HOSTS": f"$({role}_INSTANCES)", f"VC_{role}_NUM": f"$({role}_INSTANCES_NUM)"}
    got.left.append(
        Left(
            "spec.plugins.svc",
            args,
            "host names are <job>-<task>-<index> without the subdomain <job>, and there are no files"
            " /etc/volcano/<task>.host",
            "read VC_<TASK>_HOSTS, which are set",
        )
    )
    if not any(arg.lstrip("-") == "disable-network-policy=true" for arg in args):
        got.notes.append(
            "spec.plugins.svc made a NetworkPolicy that admits only the job's own pods; this operator makes none"
        )


def _framework(got: Plugged, name: str, names: list[str], args: list[str]) -> None:
    options = dict(_options(args))
    framework, port_name, usual = _FRAMEWORKS[name]
    where = f"spec.plugins.{name}"
    renamed = {role: options[role] for role in _ROLES if options.get(role, role) != role and options[role] in names}
    # Under other names the framework would find no master, and the pods would wait for each other.
    if renamed:
        listed = ", ".join(f"{task} to {role}" for role, task in renamed.items())
        got.left.append(
            Left(where, args, f"frameworkType {framework} finds its roles by name", f"rename the roles: {listed}")
        )
        return
    got.framework = framework
    number = options.get("port", str(usual))
    # The framework adds its default port by itself.
    if number != str(usual) and number.isascii() and number.isdigit():
        got.port = (port_name, int(number))
    others = [task for task in names if task not in _ROLES]
    if others and framework == "pytorch":
        got.left.append(
            Left(
                where,
                args,
                f"WORLD_SIZE counts every pod of the job, including those of {', '.join(others)}",
                "set WORLD_SIZE and RANK in the templates, or run the other roles as a job of their own",
            )
        )


def _other(got: Plugged, name: str, names: list[str], args: list[str]) -> None:
    if name == "mpi":
        worker = env_name(dict(_options(args)).get("worker", "worker"))
        got.env["MPI_HOST"] = f"$({worker}_INSTANCES)"
    got.left.append(
        Left(
            f"spec.plugins.{name}",
            args,
            "this operator has no such plugin",
            _INSTEAD.get(name, "put what it does into the image"),
        )
    )


def _options(args: list[str]) -> Iterator[tuple[str, str]]:
    for arg in args:
        name, found, value = arg.lstrip("-").partition("=")
        if found:
            yield name, value
