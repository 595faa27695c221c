"""`tj demo`: a stack, and in it a real elastic training run from start to end. Exit code 0 only when the job succeeded
with the accuracy; its last line then is `accuracy 0.97` (the number is what was reached).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tjstack.options import stack_options
from tjstack.reporter import Reporter, wants_plain

if TYPE_CHECKING:
    from tjstack.local import Stack


@click.command(short_help="Watch a real training run from start to end.")
@stack_options
def demo(plain: bool, **options: Any) -> int:
    """Start the local stack and train a real model in it: two trainers, which the autoscaler makes five; one is killed
    and replaced; the job succeeds. Takes about two minutes. The stack is stopped at the end.
    """
    from tjstack.local import run
    from tjstack.services import StackOptions

    reporter = Reporter(plain=wants_plain(plain))
    ending: list[str] = []

    def body(stack: Stack) -> int:
        return _run_story(stack, reporter, ending)

    code = run(StackOptions(**options), reporter.say, body)
    if not ending:
        return code or 1  # stopped from outside: whatever that is for the stack, the demo has not succeeded
    for line in ending:
        reporter.line(line)
    return code


def _run_story(stack: Stack, reporter: Reporter, ending: list[str]) -> int:
    from shlex import quote

    from tjstack import summary
    from tjstack.live import looking_on
    from tjstack.paths import DEMO, words
    from tjstack.story import DemoStory, StoryFailed
    from tjworker.base import OperatorError

    reporter.line()
    reporter.line(f"  Flower (tasks)   {stack.flower_url}")
    reporter.line(f"  kubectl          export KUBECONFIG={quote(str(stack.plan.paths.kubeconfig))}")
    reason = ""
    with looking_on(stack, reporter) as cluster:
        story = DemoStory(stack, cluster, reporter, stack.plan.root / DEMO)
        try:
            story.run()
        except StoryFailed as failure:
            reason = str(failure)
        except OperatorError as error:
            reason = error.message
        # What failed stays, to be looked at with `tj up`.
        if not reason and summary.succeeded(story.seen.job, story.seen.accuracy):
            story.tidy()
    if stack.handle.stopping.is_set():
        return 1
    seen = story.seen
    if not reason and not summary.succeeded(seen.job, seen.accuracy):
        reason = (
            f"the job should succeed with an accuracy of at least {summary.ACCURACY_WANTED}; it reached {seen.accuracy}"
        )
    if reason:
        ending += ["", *summary.failed(reason, seen.job, _log_tails(stack), str(stack.plan.paths.logs))]
        return 1
    ending += [
        "",
        *summary.happened(seen, reporter.elapsed_seconds()),
        "",
        *summary.next_steps(words(stack.plan.root)),
        "",
        f"accuracy {seen.accuracy:.2f}",
    ]
    return 0


def _log_tails(stack: Stack) -> dict[str, list[str]]:
    """Log lines of the processes that most often show the reason, by process."""
    from tjstack import logfile

    cluster = ("control-plane", "kubelet") if stack.plan.options.control_plane == "real" else ("localcluster",)
    return {name: logfile.tail(stack.plan.paths.log(name), 5) for name in ("worker1", "worker2", "watcher", *cluster)}
