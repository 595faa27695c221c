"""`tj convert`: prints jobs of other operators as AITrainingJobs or TrainJobs, and on stderr what does not carry over.
Reads files; needs no cluster and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tjworker.cli.console import complain, echo

if TYPE_CHECKING:
    from tjworker.cli.manifests import Manifest
    from tjworker.convert import Converted, Origins, Path
    from tjworker.convert.comments import SourceDocument

WHOLE: Origins = {(): ()}
OWN, TRAINJOB = "AITrainingJob", "TrainJob"


@click.command(short_help="Turn jobs of other operators into AITrainingJobs or TrainJobs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--to",
    type=click.Choice([OWN, TRAINJOB], case_sensitive=False),
    default=OWN,
    show_default=True,
    help="The kind to print. TrainJob: of PyTorchJobs of kubeflow.org/v1.",
)
@click.option("--strict", is_flag=True, help="Print no job when something does not carry over.")
def convert(files: tuple[str, ...], to: str, strict: bool) -> int:
    """Print the jobs in FILE (`-`: stdin) as AITrainingJobs: those of Kubeflow, KubeDL, Volcano and the EDL operator;
    or PyTorchJobs as TrainJobs. Comments stay; other objects in FILE are printed as they are. stderr names every field
    that does not carry over, and what to do about it.

    Exit code: 0, everything carries over; 3, something does not (the jobs are printed, except with --strict); 1, a job
    is not valid, and nothing is printed.

    \b
    tj convert pytorchjob.yaml > job.yaml
    tj convert --strict pytorchjob.yaml | kubectl apply -f -
    tj convert --to TrainJob pytorchjob.yaml > trainjob.yaml
    """
    from tjworker.cli.errors import EXIT_LEFT_OUT

    documents = [document for file in files for document in _documents(file, to)]
    left_out = sum(left for _, left in documents)
    # All jobs are converted before the first is printed, so `| kubectl apply` never gets half of a file.
    if not (strict and left_out):
        echo("---\n".join(text for text, _ in documents), nl=False)
    if left_out:
        complain(f"tj: {left_out} field{'s do' if left_out > 1 else ' does'} not carry over")
    return EXIT_LEFT_OUT if left_out else 0


def _documents(file: str, to: str) -> list[tuple[str, int]]:
    """(text to print, number of fields that do not carry over) of each document."""
    from tjworker import convert as conversion
    from tjworker.cli.errors import UserError
    from tjworker.cli.manifests import items, load
    from tjworker.convert import comments

    text, found = load(file)
    manifests = [(i, place, m) for i, one in enumerate(found) for place, m in items(*one)]
    _refuse_others([m for _, _, m in manifests], to)
    try:
        sources = comments.read(text)
    except RecursionError:
        raise UserError(f"{file} is nested too deeply to be read") from None
    documents = []
    for number, place, manifest in manifests:
        kind = conversion.find(manifest.raw, to)
        if kind is None:
            what = "is one already" if _is_already(manifest, to) else "is not a job"
            complain(f"{manifest.source}: {manifest.given} {what}: printed as it is")
            documents.append((_written(manifest.raw, sources[number], WHOLE, place, manifest), 0))
            continue
        made = kind.convert(manifest.raw)
        if isinstance(made, conversion.RefusedManifest):
            wrong = "\n    ".join(str(error) for error in made.errors)
            raise UserError(f"{manifest.source} is not a valid {kind.kind}; nothing is converted:\n    {wrong}")
        _refuse_invalid(manifest, made, to)
        _report(manifest, made)
        documents.append((_written(made.manifest, sources[number], made.origins, place, manifest), len(made.left)))
    return documents


def _is_already(manifest: Manifest, to: str) -> bool:
    return manifest.kind is not None and manifest.kind.kind == to


def _refuse_others(manifests: list[Manifest], to: str) -> None:
    """Raises UserError if there is no job, or a job of a misspelt kind or unknown version."""
    from tjworker import convert as conversion
    from tjworker.cli.errors import UserError

    sources = conversion.TARGETS[to]
    groups = {version.partition("/")[0] for source in conversion.SOURCES for version in source.api_versions}
    for manifest in manifests:
        group = str(manifest.raw.get("apiVersion")).partition("/")[0]
        strange = conversion.find(manifest.raw, to) is None and not _is_already(manifest, to)
        is_job = manifest.kind is not None or manifest.is_misspelt or group in groups
        # Next to a job, other objects are printed as they are. A file without any job is the wrong file.
        if strange and (is_job or len(manifests) == 1 or not manifest.raw.get("kind")):
            known = ", ".join(f"{s.kind} ({', '.join(s.api_versions)})" for s in sources)
            into, why = "" if to == OWN else f" to a {to}", conversion.why_not(manifest.raw, to)
            instead = f"write the {to} by hand{'' if to == OWN else f', or convert to an {OWN}'}"
            because = f": {why}; {instead}" if why else f"; expected one of {known}"
            raise UserError(f"{manifest.source}: {manifest.given} cannot be converted{into}{because}")


def _refuse_invalid(manifest: Manifest, made: Converted, to: str) -> None:
    """Raises UserError if the API server or the operator would refuse the result; it names the user's own fields."""
    from tjworker.cli.errors import UserError
    from tjworker.cli.manifests import Manifest as Checked
    from tjworker.cli.manifests import errors
    from tjworker.convert.comments import written_at

    metadata = made.manifest["metadata"]
    # A manifest for `kubectl create` may have only generateName.
    named = metadata if metadata.get("name") else {**metadata, "name": f"{metadata.get('generateName', '')}xxxxx"}
    wrong = errors(Checked(manifest.source, {**made.manifest, "metadata": named}))
    if wrong:
        places = written_at(made.manifest, made.origins)
        listed = "\n    ".join(f"{places.get(error.path, error.path)}: {error.message}" for error in wrong)
        raise UserError(f"{manifest.source} does not make a valid {to}; nothing is converted:\n    {listed}")


def _report(manifest: Manifest, made: Converted) -> None:
    for left in made.left:
        complain(f"{manifest.source}: {left}")
    for note in made.notes:
        complain(f"{manifest.source}: note: {note}")


def _written(made: dict[str, object], source: SourceDocument, origins: Origins, place: Path, manifest: Manifest) -> str:
    """The object as YAML, with its comments. `place`: the object's path in its document."""
    from tjworker.convert import comments

    text, lost = comments.write(made, source, {new: (*place, *old) for new, old in origins.items()})
    if lost and not place:
        listed = "; ".join(lost)
        complain(f"{manifest.source}: note: comments of fields that are gone: {listed}")
    return text
