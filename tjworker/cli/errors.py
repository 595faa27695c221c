"""Errors that are not bugs of `tj`: shown as one message, never as a traceback.

Exit codes of `tj`: 0, success; 1, failure, or the object does not exist; 2, wrong usage (click's own); 3, `tj convert`
has left something out; 130, the user stopped it.
"""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_LEFT_OUT = 3
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """The message names the object, the value, the rule, and what to do next."""


class NoSuchJob(UserError):
    """No kind that the user may read has a job of that name."""


def report_outage(why: str) -> None:
    """Print on stderr that the API server does not answer, or answers again; see `informer.OnOutage`."""
    from tjworker.cli.console import echo

    if why:
        echo(f"tj: the API server does not answer, trying again until Ctrl-C: {why}", err=True)
    else:
        echo("tj: the API server answers again", err=True)
