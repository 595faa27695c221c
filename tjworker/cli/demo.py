"""`tj demo`: a stack, and in it a real elastic training run from start to end. Exit code 0 only when the job succeeded with the
accuracy; its last line then is `accuracy 0.97` (the number is what was reached).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.stackoptions import stack_options

if TYPE_CHECKING:
    from tjworker.cli.console import Reporter
    from tjworker.cli.stack.local import Stack
    from tjworker.cli.story import Told


@click.command("demo", short_help="Watch a real training run from start to end.")
@stack_options
def command(plain: bool, **options: Any) -> int:
    """Start the local stack and train a real model in it: two trainers, which the autoscaler makes five; one is killed and
    replaced; the job succeeds. Takes about two minutes. The stack is stopped at the end.
    """
    from tjworker.cli.console import Reporter, wants_plain
    from tjworker.cli.stack.local import StackOptions, run

    reporter = Reporter(plain=wants_plain(plain))
    ending: list[str] = []

    def body(stack: Stack) -> int:
        return _tell(stack, reporter, ending)

    code = run(StackOptions(**options), reporter.say, body)
    if not ending:
        return code or 1  # stopped from outside: whatever that is for the stack, the demo has not succeeded
    for line in ending:
        reporter.line(line)
    return code


def _tell(stack: Stack, reporter: Reporter, ending: list[str]) -> int:
    from tjworker.base import OperatorError
    from tjworker.cli import summary
    from tjworker.cli.live import looking_on
    from tjworker.cli.story import Story, StoryFailed

    reporter.line()
    reporter.line(f"  Flower (tasks)   {stack.flower_url}")
    reporter.line(f"  kubectl          export KUBECONFIG={stack.plan.paths.kubeconfig}")
    reason = ""
    with looking_on(stack, reporter) as cluster:
        story = Story(stack, cluster, reporter, stack.plan.root / "examples" / "digits" / "job.yaml")
        try:
            story.run()
        except StoryFailed as failure:
            reason = str(failure)
        except OperatorError as error:
            reason = error.message
        # What failed stays, to be looked at with `tj up`.
        if not reason and summary.succeeded(story.told.job, story.told.accuracy):
            story.tidy()
    if stack.handle.stopping.is_set():
        return 1
    told = story.told
    if not reason and not summary.succeeded(told.job, told.accuracy):
        reason = (
            f"the job should succeed with an accuracy of at least {summary.ACCURACY_WANTED}; it reached {told.accuracy}"
        )
    if reason:
        ending += ["", *summary.failed(reason, told.job, _log_tails(stack), str(stack.plan.paths.logs))]
        return 1
    ending += ["", *_happened(told, reporter), "", *summary.next_steps(), "", f"accuracy {told.accuracy:.2f}"]
    return 0


def _happened(told: Told, reporter: Reporter) -> list[str]:
    from tjworker.cli import summary

    return summary.happened(
        told.job,
        told.phases,
        killed=told.killed,
        replaced_after_seconds=told.replaced_after_seconds,
        grown_after_seconds=told.grown_after_seconds,
        restarted_by_growth=told.restarted_by_growth,
        job_seconds=told.job_seconds,
        wall_seconds=reporter.elapsed_seconds(),
    )


def _log_tails(stack: Stack) -> dict[str, list[str]]:
    """Of the processes that most often know why."""
    from tjworker.cli.stack import logfile

    cluster = ("control-plane", "agents") if stack.plan.control_plane == "real" else ("localcluster",)
    return {name: logfile.tail(stack.plan.paths.log(name), 5) for name in ("worker1", "worker2", "watcher", *cluster)}
