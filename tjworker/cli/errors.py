"""What a user did or met that is not a bug: shown as one message, never as a traceback. Imports nothing.

Exit codes of `tj`: 0 it worked; 1 it failed, or what was asked for is not there; 2 wrong usage (click's own); 130 the
user stopped it.
"""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """The message names the object, the value, the rule, and what to do next."""

    def __init__(self, message: str, *, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
