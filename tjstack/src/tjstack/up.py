"""`tj up`: the whole product on this machine, in the foreground, until Ctrl-C. Owns its state folder while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tjstack.options import stack_options
from tjstack.reporter import Reporter, wants_plain

if TYPE_CHECKING:
    from tjstack.local import Stack


@click.command(short_help="Run the whole product on this machine, until Ctrl-C.")
@stack_options
def up(plain: bool, **options: Any) -> int:
    """Run the whole product on this machine, until Ctrl-C: Redis, a local Kubernetes API that runs pods as processes,
    the watcher, two Celery workers, beat, Flower and the page. What dies is started again; nothing is left behind.
    Needs neither Docker nor Kubernetes nor Redis.

    Ctrl-C stops it in order, a second Ctrl-C at once.
    """
    from tjstack.live import looking_on
    from tjstack.local import run
    from tjstack.services import StackOptions

    reporter = Reporter(plain=wants_plain(plain))

    def body(stack: Stack) -> int:
        announce(stack, reporter)
        with looking_on(stack, reporter):
            stack.handle.stopping.wait()
        return 0

    return run(StackOptions(**options), reporter.say, body)


def announce(stack: Stack, reporter: Reporter) -> None:
    """Print the addresses of the stack and the commands to use it."""
    from shlex import quote

    from tjstack.paths import DEMO
    from tjstack.services import kubectl_path

    paths, tools = stack.plan.paths, kubectl_path().parent
    reporter.line()
    reporter.line(f"  page (jobs)      {stack.page_url}")
    reporter.line(f"  Flower (tasks)   {stack.flower_url}")
    reporter.line(f"  logs             {paths.logs}")
    reporter.line()
    reporter.line("  In another terminal:")
    reporter.line(f"    export KUBECONFIG={quote(str(paths.kubeconfig))}")
    reporter.line(f"    export PATH={quote(str(tools))}:$PATH   # tj, kubectl")
    reporter.line(f"    kubectl apply -f {quote(str(stack.plan.root / DEMO))}")
    reporter.line("    tj get")
    reporter.line("  Ctrl-C stops everything.")
    reporter.line()
