"""`python -m tjworker.cli` is `tj`: it works where the console script is not on the PATH."""

from tjworker.cli.main import main

main()
