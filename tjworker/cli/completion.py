"""`tj completion`: the script that makes a shell complete commands, options and the names of jobs."""

from __future__ import annotations

import click

from tjworker.cli.console import echo


@click.command(short_help="Print the script that completes tj in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that makes SHELL complete commands, options and names of jobs.

    \b
    source <(tj completion bash)              in ~/.bashrc; zsh likewise in ~/.zshrc
    tj completion fish > ~/.config/fish/completions/tj.fish
    """
    from click.shell_completion import get_completion_class

    from tjworker.cli.main import tj

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101  click has these three
    echo(found(tj, {}, "tj", "_TJ_COMPLETE").source())
    return 0
