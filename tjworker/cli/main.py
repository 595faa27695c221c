"""`tj`: finds the command and runs it; a user's error becomes one message on stderr. Imports a command only to run it.

Results go to stdout, messages to stderr. Exit codes are those of `errors`. A traceback means a bug in `tj`.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys

import click

from tjworker.cli.console import complain, echo
from tjworker.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, UserError

COMMANDS = (
    *("up", "demo", "submit", "run", "get", "describe", "events", "timeline", "logs", "history"),
    *("scale", "suspend", "resume", "preempt", "fail", "delete", "validate", "convert", "simulate"),
    *("top", "doctor", "completion"),
)
"""The commands, in the order of `tj --help`. Each is in the module of its name, or in the one that MODULES names."""
MODULES = {
    "resume": "tjworker.cli.suspend",
    "preempt": "tjworker.cli.end",
    "fail": "tjworker.cli.end",
    "up": "tjstack.up",
    "demo": "tjstack.demo",
}
NO_COMMANDS = {"down": "the local stack ends with Ctrl-C in the terminal of `tj up`"}
"""A command that users expect and that does not exist -> what to do instead."""
LOCAL_STACK = "tjstack"
"""A package of another distribution, `trainingjob-stack`, which the operator's image lacks."""


class LazyGroup(click.Group):
    """Imports a command's module only when the command runs. The modules import only what their help needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            close = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = NO_COMMANDS.get(cmd_name) or (
                f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(COMMANDS)}"
            )
            ctx.fail(f"No such command {cmd_name!r}; {hint}")
        module = MODULES.get(cmd_name, f"tjworker.cli.{cmd_name}")
        try:
            command = getattr(importlib.import_module(module), cmd_name)
        except ModuleNotFoundError as error:
            # A folder `tjstack` without the package (a checkout that is not installed) lacks only the module.
            if module.startswith(f"{LOCAL_STACK}.") and error.name in (LOCAL_STACK, module):
                return _refuse_without_local_stack(cmd_name)
            raise
        assert isinstance(command, click.Command)  # noqa: S101  for the type checker; a test holds it
        return command


def _refuse_without_local_stack(name: str) -> click.Command:
    """A command that takes any arguments, and says what to install."""
    need, install = "needs the local stack, which is not installed:", "pip install 'trainingjob-operator[local]'"

    def refuse() -> None:
        raise UserError(f"{name} {need} {install}")

    return click.Command(
        name,
        callback=refuse,
        help=f"It {need}\n\n\b\n{install}",
        short_help="Not installed: it needs the local stack.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Which cluster: KUBECONFIG, else a local stack's .tj/kubeconfig in this folder.",
)
@click.version_option(package_name="trainingjob-operator", prog_name="tj")
def tj() -> None:
    """Elastic, fault-tolerant training jobs on Kubernetes.

    \b
    tj demo               a real training run on this machine, from start to end
    tj up                 the whole product on this machine, until Ctrl-C
    tj get [JOB]          which jobs there are; one job, its pods and why it waits or failed
    tj describe JOB       its state, why, and what comes next
    tj doctor             what is wrong, and what to do about it
    """


def run(argv: list[str]) -> int:
    """The exit code of `tj ARGV`."""
    from tjworker.base import OperatorError

    try:
        # In standalone mode click ends the process itself, and an OperatorError would be a traceback.
        result = tj.main(args=argv, prog_name="tj", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UserError as error:
        complain(f"tj: {error}")
        return EXIT_FAILED
    except OperatorError as error:
        complain(f"tj: {error.message}")
        return EXIT_FAILED
    except OSError as error:
        return _give_up_writing(error)


_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a full disk answers (`tj get > /dev/full`)."""


def _give_up_writing(error: OSError) -> int:
    """The exit code when stdout takes nothing more; any other error goes on."""
    if error.errno in _CANNOT_WRITE:
        echo(f"tj: the output cannot be written: {error.strerror}", err=True)
    elif not isinstance(error, BrokenPipeError):  # its reader has gone (`tj get | head`)
        raise error
    # Otherwise Python would write its buffer again at exit, and fail with a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILED
