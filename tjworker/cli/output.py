"""Prints objects for programs as kubectl does, with `-o name`, `json` or `yaml`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import echo

if TYPE_CHECKING:
    from tjworker.cli.jobs import FoundJob

as_object = click.option(
    "-o", "--output", type=click.Choice(["name", "json", "yaml"]), help="Print the job instead of a sentence."
)
"""The option of commands that write one job, as of `kubectl create` and `kubectl scale`."""


def print_result(sentence: str, job: FoundJob, output: str | None) -> None:
    """Print the result of a write: the sentence, or the job as the API server has it now."""
    if output is None:
        echo(sentence)
    elif output == "name":
        echo(typed_name(job))
    else:
        dump(job.raw, output)


def typed_name(job: FoundJob) -> str:
    """The job's name as kubectl prints and accepts it: `aitrainingjob.elasticdeeplearning.ai/digits`."""
    from tjworker.api.kinds import KNOWN_KINDS

    kind = KNOWN_KINDS[job.resource]
    return f"{kind.singular}.{kind.group}/{job.raw['metadata']['name']}"


def dump(obj: dict[str, Any], output: str) -> None:
    """Print an object as `json` or `yaml`."""
    if output == "json":
        echo(json.dumps(obj, indent=2))
    else:
        import yaml

        echo(yaml.safe_dump(obj, sort_keys=False), nl=False)
