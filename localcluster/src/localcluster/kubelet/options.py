"""The command-line options that `python -m localcluster` and `python -m localcluster.kubelet` share. Pure but for
asking this machine how much it has."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from localcluster.kubelet.node import NodeConfig
from localcluster.objects import quantity

FAKE_CPU, FAKE_MEMORY = "32", "128Gi"


def add_node_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent",
        choices=("process", "fake"),
        default="process",
        help="process runs each container as a local process; fake plays pods from their annotations",
    )
    parser.add_argument("--nodes", type=_parse_count, default=1, metavar="N", help="how many nodes (default 1)")
    parser.add_argument("--node-prefix", default="node", metavar="NAME", help="nodes are named NAME-0, NAME-1 ...")
    parser.add_argument(
        "--node-cpu", type=_parse_quantity, metavar="QUANTITY", help="CPUs of a node (process: the machine's; fake: 32)"
    )
    parser.add_argument(
        "--node-memory",
        type=_parse_quantity,
        metavar="QUANTITY",
        help="memory of a node (process: the machine's; fake: 128Gi)",
    )
    parser.add_argument(
        "--node-gpus",
        type=_parse_whole,
        default=0,
        metavar="N",
        help="GPUs (nvidia.com/gpu) of a node, in name only (default 0)",
    )
    parser.add_argument(
        "--node-pods", type=_parse_count, default=110, metavar="N", help="pods a node takes (default 110)"
    )
    parser.add_argument(
        "--workdir", default="", metavar="DIR", help="process: working directory of containers without workingDir"
    )
    parser.add_argument(
        "--isolation",
        choices=("auto", "root", "userns", "none"),
        default="auto",
        help="process: how containers get mounts of their own (default: what works)",
    )


def node_configs(options: argparse.Namespace, kubelet_port: int = 0) -> list[NodeConfig]:
    process = options.agent == "process"
    cpu = options.node_cpu or (str(os.cpu_count() or 1) if process else FAKE_CPU)
    memory = options.node_memory or (machine_memory() if process else FAKE_MEMORY)
    return [
        NodeConfig(
            name=f"{options.node_prefix}-{n}",
            cpu=cpu,
            memory=memory,
            gpus=options.node_gpus,
            max_pods=options.node_pods,
            kubelet_port=kubelet_port,
            runtime="process://1.0" if process else "fake://1.0",
        )
        for n in range(options.nodes)
    ]


def machine_memory() -> str:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemTotal:"):
                return f"{line.split()[1]}Ki"
    except OSError:
        pass
    return "8Gi"


def _parse_quantity(text: str) -> str:
    try:
        quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _parse_count(text: str) -> int:
    number = _parse_whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return number


def _parse_whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
