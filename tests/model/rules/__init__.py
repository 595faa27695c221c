"""The rules: one module a topic, one table of all of them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.model.rules import beside, cleanup, duties, edl, ends, pods, restarts, status
from tests.model.rules.rule import Rule

RULES: Mapping[str, Rule] = {
    sentence: rule
    for module in (status, ends, restarts, duties, pods, cleanup, edl, beside)
    for sentence, rule in module.RULES.items()
}
"""The sentence that a rule holds -> the rule."""
