"""The options that `tj up` and `tj demo` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tjworker.cli.cluster import DEFAULT_STATE_DIR

_PORT = click.IntRange(1, 65535)


class _Quantity(click.ParamType):  # type: ignore[type-arg]  # before 8.4 click's types take no parameter
    """Refused here: the local cluster would only say it after three starts."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from tjworker.api.quantity import milli

        try:
            if value and milli(value) <= 0:
                raise ValueError(f"{value!r} is not above 0")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class _Kinds(click.ParamType):  # type: ignore[type-arg]
    """Refused here, with the names that there are."""

    name = "kinds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from tjworker.cli.errors import UserError
        from tjworker.cli.kinds import kinds_named
        from tjworker.settings import Settings

        try:
            kinds_named(Settings(kinds=str(value)).kind_list, "it")
        except UserError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def stack_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The fields of `tjstack.services.StackOptions`, and `plain`."""
    options = (
        click.option(
            "--state-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path(DEFAULT_STATE_DIR),
            show_default=True,
            help="Folder for kubeconfig, logs and data; a second stack needs another one.",
        ),
        click.option("--api-port", type=_PORT, help="Port of the API server [default: 6443, or a free one]."),
        click.option("--flower-port", type=_PORT, help="Port of Flower [default: 5555, or a free one]."),
        click.option("--page-port", type=_PORT, help="Port of the page of jobs [default: 8088, or a free one]."),
        click.option(
            "--redis-port", type=_PORT, help="Port of Redis [default: a free one]; not used with TJ_REDIS_URL."
        ),
        click.option(
            "--nodes", type=click.IntRange(1, 100), default=2, show_default=True, help="Nodes of the local cluster."
        ),
        click.option(
            "--node-cpu",
            type=_Quantity(),
            default="",
            metavar="QUANTITY",
            help="CPUs that each node says it has [default: the machine's].",
        ),
        click.option(
            "--kinds",
            type=_Kinds(),
            metavar="all|KIND,...",
            help="Job kinds of other operators to serve, too, such as PaddleJob [default: those of TJ_KINDS].",
        ),
        click.option(
            "--control-plane",
            type=click.Choice(["local", "real"]),
            default="local",
            show_default=True,
            help="real: API server, controllers and scheduler of Kubernetes itself (needs `make control-plane`).",
        ),
        click.option(
            "--plain", is_flag=True, help="One line a change instead of a live table; default without a terminal."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function
