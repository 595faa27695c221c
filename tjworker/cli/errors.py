"""What a user did or met that is not a bug: shown as one message, never as a traceback.

Exit codes of `tj`: 0 it worked; 1 it failed, or what was asked for is not there; 2 wrong usage (click's own); 3 `tj
convert` has left something out; 130 the user stopped it.
"""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_LEFT_OUT = 3
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """The message names the object, the value, the rule, and what to do next."""


class NoSuchJob(UserError):
    """No kind that the user may read has a job of that name."""


def tell_outage(why: str) -> None:
    """On stderr, of a command that follows something; see `informer.OnOutage`."""
    from tjworker.cli.console import echo

    if why:
        echo(f"tj: the API server does not answer, trying again until Ctrl-C: {why}", err=True)
    else:
        echo("tj: the API server answers again", err=True)
