"""The commands. A user's mistake is reported in one line, with exit code 2 and no traceback."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from controlplane import binaries
from controlplane.binaries import explain_missing
from controlplane.build import build
from controlplane.errors import ControlPlaneError
from controlplane.releases import DEFAULT, SUPPORTED, Release, helm, kubelet, release


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.work(options))
    except ControlPlaneError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m controlplane", description="The real Kubernetes control plane, without containers."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    make = commands.add_parser("build", help="build the programs, once; prints their folder")
    make.set_defaults(work=_build)
    make.add_argument("--check", action="store_true", help="build nothing; fail when something is missing")
    make.add_argument(
        "--kubelet", action="store_true", help="kubelet and kube-proxy for `make test-cluster`, and nothing else"
    )
    make.add_argument("--helm", action="store_true", help="helm for `make test-chart`, and nothing else")
    run = commands.add_parser("run", help="run it in the foreground until SIGTERM or SIGINT")
    run.set_defaults(work=_run)
    run.add_argument(
        "--data-dir", type=Path, required=True, metavar="DIR", help="etcd's data, keys, logs; may be used again"
    )
    run.add_argument(
        "--kubeconfig",
        type=Path,
        required=True,
        metavar="FILE",
        help="of the administrator; written once the API server is ready",
    )
    run.add_argument("--port", type=_port, default=0, metavar="P", help="of the API server (default: a free one)")
    run.add_argument("--audit-log", type=Path, metavar="FILE", help="one JSON line a request")
    run.add_argument(
        "--user",
        type=_user,
        action="append",
        default=[],
        metavar="NAME[,GROUP...]=FILE",
        help="a kubeconfig for that user, who may do what RBAC says; "
        "a service account is system:serviceaccount:NAMESPACE:NAME",
    )
    around = commands.add_parser(
        "exec", help="run a command with a control plane of its own; exits with the command's code"
    )
    around.set_defaults(work=_exec)
    around.add_argument(
        "--env",
        action="append",
        default=["KUBECONFIG"],
        metavar="NAME",
        help="one more variable that names the kubeconfig, as KUBECONFIG does",
    )
    around.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    for command in (make, run, around):
        command.add_argument(
            "--kubernetes",
            type=_release,
            default=release(),
            metavar="V",
            help=f"{' or '.join(SUPPORTED)} (default {DEFAULT})",
        )
    return parser


def _build(options: argparse.Namespace) -> int:
    if options.kubelet:
        return _build_apart(kubelet(), "--kubelet", check=options.check)
    if options.helm:
        return _build_apart(helm(), "--helm", check=options.check)
    wanted: Release = options.kubernetes
    if os.environ.get(binaries.ASSETS) and not binaries.missing(wanted):
        print(os.environ[binaries.ASSETS])  # noqa: T201
        return 0
    if options.check:
        lacking = binaries.missing(wanted)
        if lacking:
            raise ControlPlaneError(explain_missing(wanted, lacking))
        print(binaries.cached_folder(wanted))  # noqa: T201
        return 0
    print(build(wanted, _say))  # noqa: T201
    return 0


def _build_apart(wanted: Release, option: str, *, check: bool) -> int:
    """Programs that are no part of a control plane."""
    if check and not binaries.cached_folder(wanted).is_dir():
        names = ", ".join(program.name for program in wanted.programs)
        raise ControlPlaneError(f"{names} not built: run `python -m controlplane build {option}`")
    print(binaries.cached_folder(wanted) if check else build(wanted, _say))  # noqa: T201
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _run(options: argparse.Namespace) -> int:
    from controlplane.run import run

    return run(
        options.kubernetes,
        options.data_dir,
        options.kubeconfig,
        port=options.port,
        audit_log=options.audit_log,
        users=options.user,
    )


def _exec(options: argparse.Namespace) -> int:
    from controlplane.plane import ControlPlane

    with ControlPlane(kubernetes=options.kubernetes) as plane:
        env = {**os.environ, **dict.fromkeys(options.env, str(plane.kubeconfig))}
        return subprocess.run(options.command, env=env, check=False).returncode


def _release(text: str) -> Release:
    try:
        return release(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _port(text: str) -> int:
    if text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")


def _user(text: str) -> tuple[str, tuple[str, ...], Path]:
    names, separator, file = text.rpartition("=")
    name, *groups = names.split(",")
    if not (separator and name and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE or NAME,GROUP=FILE")
    return name, tuple(groups), Path(file)
