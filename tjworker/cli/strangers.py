"""Objects that look like a job and are of no kind that this operator serves: what their author most likely meant. Pure.

Anything else is another object of Kubernetes, such as the claim or the Service beside a job.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.cli.kinds import known_words

CLOSE = 0.8
"""Of two names (difflib's ratio): `AITrainngJob` is close to AITrainingJob; batch's `Job` is not close to TFJob."""


def foreign(raw: Mapping[str, Any]) -> str:
    """What to do with a job of a kind that is not supported, as the end of `Job (batch.volcano.sh/v1alpha1) ...`; ''
    for what is none. `raw`: of no known kind in a known version."""
    from tjworker import convert

    if convert.find(raw) is not None:
        return "is another operator's job: `tj convert FILE` translates it into an AITrainingJob (docs/convert.md)"
    return ""


def misspelt(raw: Mapping[str, Any]) -> str:
    """Likewise of an object that is most likely meant to be a job."""
    kind, version = str(raw.get("kind") or ""), str(raw.get("apiVersion") or "")
    if meant := _meant(kind, version.partition("/")[0]):
        return f"is not a supported job kind; did you mean {meant}?"
    return "" if kind and version else unsupported()


def unsupported() -> str:
    return f"is not a supported job kind; supported are {known_words()}"


def _meant(kind: str, group: str) -> str:
    """`AITrainingJob (elasticdeeplearning.ai/v1)`: a kind of that name in another version or group, or of nearly that
    name."""
    words = {known.kind.lower(): known.kind for known in KNOWN_KINDS.values()}
    close = difflib.get_close_matches(kind.lower(), words, n=1, cutoff=CLOSE)
    found = [known for known in KNOWN_KINDS.values() if close and known.kind == words[close[0]]]
    same = [known for known in found if known.group == group]
    return " or ".join(f"{known.kind} ({', '.join(known.api_versions)})" for known in same or found)
