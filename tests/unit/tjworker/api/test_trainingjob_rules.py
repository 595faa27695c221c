"""A TrainingJob's own rule of words against the shell that it stands for."""

from __future__ import annotations

import random
import shlex

from tests.support.seeds import the_seed
from tjworker.api.kinds.trainingjob import rules


def test_the_rule_of_words_agrees_with_the_shell() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    sound = 0
    for _ in range(20_000):
        text = "".join(rng.choices("ab '\"\\\n\t$#é", k=rng.randint(0, 12)))
        try:
            shlex.split(text)
        except ValueError:
            assert not rules.are_words(text), f"seed {seed}: {text!r}"
        else:
            assert rules.are_words(text), f"seed {seed}: {text!r}"
            sound += 1
    assert 2_000 < sound < 18_000, f"seed {seed}: the random words show nothing, {sound} were sound"
