"""`python -m controlplane build|run|exec`: the command line. Results on stdout, messages on stderr."""

from __future__ import annotations

import sys

from controlplane.cli import main

if __name__ == "__main__":
    sys.exit(main())
