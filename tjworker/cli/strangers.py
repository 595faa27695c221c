"""Finds what the author of an object meant that looks like a job but is of no kind that this operator serves. Pure.

Anything else is another object of Kubernetes, such as a claim or a Service for the job.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.cli.kinds import known_words

CLOSE = 0.8
"""difflib's ratio of two close names: `AITrainngJob` is close to AITrainingJob; batch's `Job` is not close to TFJob."""


def foreign(raw: Mapping[str, Any]) -> str:
    """What to do with another operator's job, as the end of a sentence that begins `Job (batch.volcano.sh/v1alpha1)`;
    '' if the object is not one. `raw`: an object of no known kind and version."""
    from tjworker import convert

    if convert.find(raw) is not None:
        return "is another operator's job: `tj convert FILE` translates it into an AITrainingJob (docs/convert.md)"
    return ""


def misspelt(raw: Mapping[str, Any]) -> str:
    """What to do with an object of a misspelt kind or version, as the end of a sentence; '' if it is none."""
    kind, version = str(raw.get("kind") or ""), str(raw.get("apiVersion") or "")
    if meant := _meant(kind, version.partition("/")[0]):
        return f"is not a supported job kind; did you mean {meant}?"
    return "" if kind and version else unsupported()


def unsupported() -> str:
    return f"is not a supported job kind; supported are {known_words()}"


def _meant(kind: str, group: str) -> str:
    """The kinds of this name in another version or group, or of a close name: `AITrainingJob
    (elasticdeeplearning.ai/v1)`."""
    words = {known.kind.lower(): known.kind for known in KNOWN_KINDS.values()}
    close = difflib.get_close_matches(kind.lower(), words, n=1, cutoff=CLOSE)
    found = [known for known in KNOWN_KINDS.values() if close and known.kind == words[close[0]]]
    same = [known for known in found if known.group == group]
    return " or ".join(f"{known.kind} ({', '.join(known.api_versions)})" for known in same or found)
