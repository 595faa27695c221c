"""The console script `tj`, and `python -m tjworker.cli` where it is not on the PATH.

Imports nothing before it can answer Ctrl-C: a stop while Python still reads our packages ends as quietly as a later one.
"""

from __future__ import annotations


def main() -> None:
    try:
        import sys

        from tjworker.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        from tjworker.cli.errors import EXIT_INTERRUPTED

        raise SystemExit(EXIT_INTERRUPTED) from None
    raise SystemExit(code)


if __name__ == "__main__":
    main()
