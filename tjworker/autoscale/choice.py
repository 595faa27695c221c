"""Chooses the policy that plans a job. Pure.

The most specific choice counts: an annotation of the job, then a label of its namespace, then the setting
TJ_AUTOSCALE_POLICY. An unknown name is ignored, so that a misspelt name costs no job its replicas.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tjworker.api.labels import AUTOSCALE_POLICY
from tjworker.autoscale.state import JobState


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    name: str
    wrong: str = ""
    """What is wrong with the names that were ignored, as a sentence; '' if none was."""


def choose_policy(state: JobState, known: Collection[str], default: str) -> PolicyChoice:
    """The policy of a job. `known`: the names of all policies. `default`: the policy of the setting."""
    job = state.job
    named = (
        (f"annotation {AUTOSCALE_POLICY} of the job", job.annotations.get(AUTOSCALE_POLICY, "")),
        (f"label {AUTOSCALE_POLICY} of namespace {job.name.namespace}", state.namespace_policy),
    )
    wrong: list[str] = []
    chosen = default
    for where, name in named:
        # A wrong annotation falls back to the label of the namespace, and only then to the setting.
        if name in known:
            chosen = name
            break
        if name:
            # An annotation may have 256 KB; the text goes into a condition and the log.
            wrong.append(f"{where} names {name[:80]!r}, which is no policy")
    if not wrong:
        return PolicyChoice(chosen)
    return PolicyChoice(chosen, f"{'; '.join(wrong)}. Choose one of {', '.join(known)}; {chosen} plans it now")
