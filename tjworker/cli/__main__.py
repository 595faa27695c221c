"""The console script `tj`, and `python -m tjworker.cli` where it is not on the PATH.

Imports nothing before it can handle Ctrl-C: a stop while Python imports packages ends as quietly as a later one, and so
does a second Ctrl-C while Python shuts down.
"""

from __future__ import annotations


def main() -> None:
    try:
        import signal
        import sys

        from tjworker.cli.main import run

        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is exit handlers: libraries take their files away
    except KeyboardInterrupt:
        from tjworker.cli.errors import EXIT_INTERRUPTED

        raise SystemExit(EXIT_INTERRUPTED) from None
    raise SystemExit(code)


if __name__ == "__main__":
    main()
