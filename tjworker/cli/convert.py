"""`tj convert`: jobs of other operators as AITrainingJobs, on stdout; what does not carry over, on stderr. Reads files;
needs no cluster and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tjworker.cli.console import complain, echo

if TYPE_CHECKING:
    from tjworker.cli.manifests import Manifest
    from tjworker.convert import Converted, Origins, Path
    from tjworker.convert.comments import Source

WHOLE: Origins = {(): ()}


@click.command(short_help="Turn jobs of other operators into AITrainingJobs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--strict", is_flag=True, help="Print no job when something does not carry over.")
def convert(files: tuple[str, ...], strict: bool) -> int:
    """Print the jobs in FILE (`-`: stdin) as AITrainingJobs: those of Kubeflow, KubeDL, Volcano and the EDL operator.
    Comments stay; other objects in FILE are printed as they are. stderr names every field that does not carry over, and
    what to do about it.

    Exit code: 0, all of it carries over; 3, something does not (the jobs are printed all the same, but with --strict);
    1, a job is not valid, and nothing is printed.

    \b
    tj convert pytorchjob.yaml > job.yaml
    tj convert --strict pytorchjob.yaml | kubectl apply -f -
    """
    from tjworker.cli.errors import EXIT_LEFT_OUT

    documents = [document for file in files for document in _documents(file)]
    left_out = sum(left for _, left in documents)
    if not (strict and left_out):
        echo("---\n".join(text for text, _ in documents), nl=False)
    if left_out:
        complain(f"tj: {left_out} field{'s do' if left_out > 1 else ' does'} not carry over")
    return EXIT_LEFT_OUT if left_out else 0


def _documents(file: str) -> list[tuple[str, int]]:
    """Each as it is to be printed, and how many of its fields do not carry over."""
    from tjworker import convert as conversion
    from tjworker.cli.errors import UserError
    from tjworker.cli.manifests import items, load
    from tjworker.convert import comments

    text, found = load(file)
    manifests = [(i, place, m) for i, one in enumerate(found) for place, m in items(*one)]
    _refuse_others([m for _, _, m in manifests])
    try:
        sources = comments.read(text)
    except RecursionError:
        raise UserError(f"{file} is nested too deeply to be read") from None
    told = []
    for number, place, manifest in manifests:
        kind = conversion.find(manifest.raw)
        if kind is None:
            what = "is one already" if _is_own(manifest) else "is not a job"
            complain(f"{manifest.source}: {manifest.given} {what}: printed as it is")
            told.append((_written(manifest.raw, sources[number], WHOLE, place, manifest), 0))
            continue
        made = kind.convert(manifest.raw)
        if isinstance(made, conversion.Refused):
            wrong = "\n    ".join(str(error) for error in made.errors)
            raise UserError(f"{manifest.source} is no valid {kind.kind}; nothing is converted:\n    {wrong}")
        _refuse_invalid(manifest, made)
        _report(manifest, made)
        told.append((_written(made.manifest, sources[number], made.origins, place, manifest), len(made.left)))
    return told


def _is_own(manifest: Manifest) -> bool:
    from tjworker.api.kinds import aitrainingjob

    return manifest.kind is aitrainingjob.JOB_KIND


def _refuse_others(manifests: list[Manifest]) -> None:
    """Raises UserError where there is no job at all, or one that is misspelt or of an unknown version."""
    from tjworker import convert as conversion
    from tjworker.cli.errors import UserError

    groups = {version.partition("/")[0] for source in conversion.SOURCES for version in source.api_versions}
    for manifest in manifests:
        group = str(manifest.raw.get("apiVersion")).partition("/")[0]
        strange = conversion.find(manifest.raw) is None and not _is_own(manifest)
        if strange and (group in groups or len(manifests) == 1 or not manifest.raw.get("kind")):
            known = ", ".join(f"{s.kind} ({', '.join(s.api_versions)})" for s in conversion.SOURCES)
            raise UserError(f"{manifest.source}: {manifest.given} cannot be converted; expected one of {known}")


def _refuse_invalid(manifest: Manifest, made: Converted) -> None:
    """Raises UserError with what the API server or the operator would refuse, by the fields that the user wrote."""
    from tjworker.cli.errors import UserError
    from tjworker.cli.manifests import Manifest as Checked
    from tjworker.cli.manifests import errors
    from tjworker.convert.comments import written_at

    metadata = made.manifest["metadata"]
    named = metadata if metadata.get("name") else {**metadata, "name": f"{metadata.get('generateName', '')}xxxxx"}
    wrong = errors(Checked(manifest.source, {**made.manifest, "metadata": named}))
    if wrong:
        places = written_at(made.manifest, made.origins)
        listed = "\n    ".join(f"{places.get(error.path, error.path)}: {error.message}" for error in wrong)
        raise UserError(f"{manifest.source} makes no valid AITrainingJob; nothing is converted:\n    {listed}")


def _report(manifest: Manifest, made: Converted) -> None:
    for left in made.left:
        complain(f"{manifest.source}: {left}")
    for note in made.notes:
        complain(f"{manifest.source}: note: {note}")


def _written(made: dict[str, object], source: Source, origins: Origins, place: Path, manifest: Manifest) -> str:
    """As YAML. `place`: of the object in its document."""
    from tjworker.convert import comments

    text, lost = comments.write(made, source, {new: (*place, *old) for new, old in origins.items()})
    if lost and not place:
        listed = "; ".join(lost)
        complain(f"{manifest.source}: note: comments of fields that are gone: {listed}")
    return text
