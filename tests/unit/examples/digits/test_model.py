"""The gradients are those of the loss, blocks fit together, and training on the real digits works."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.digits import data, model
from examples.digits.optimizer import BadGradient, Store


def exported(seed: int = 1) -> dict[str, model.Floats]:
    return {f"p/{name}": array for name, array in model.initial_parameters(seed).items()}


def test_the_gradient_is_what_a_small_step_does_to_the_loss() -> None:
    seed = int(np.random.default_rng().integers(10**9))
    rng = np.random.default_rng(seed)
    blocks = {name: array.astype(np.float64) for name, array in model.initial_parameters(seed).items()}
    pixels, digits = rng.random((5, model.PIXELS)), rng.integers(0, 10, 5).astype(np.uint8)

    def computed(changed: dict[str, NDArray[np.float64]]) -> tuple[float, model.Parameters]:
        return model.loss_and_gradients(changed, pixels, digits)  # type: ignore[arg-type]  # doubles, to see small steps

    gradients = computed(blocks)[1]
    for name in ("w1.3", "b1.1", "w2.2", "b2.0"):
        direction = rng.standard_normal(blocks[name].shape)
        step = 1e-6
        up = {**blocks, name: blocks[name] + step * direction}
        down = {**blocks, name: blocks[name] - step * direction}
        want = (computed(up)[0] - computed(down)[0]) / (2 * step)
        got = float((gradients[name] * direction).sum())
        assert got == pytest.approx(want, rel=1e-3, abs=1e-6), f"{name}, seed {seed}"


def test_learning_from_each_shard_once_per_epoch_tells_digits_apart() -> None:
    train, test = data.load()
    store = Store()
    store.restore(exported(), 0)
    shards = data.shard_count(len(train.digits), 24)
    for epoch in range(4):
        for number in range(shards):
            rows = data.shard(train, seed=1, epoch=epoch, number=number, shard_rows=24)
            _, gradients = model.loss_and_gradients(store.parameters, model.to_floats(rows.pixels), rows.digits)
            store.apply(gradients, seen_version=store.version, learning_rate=0.004)
    assert model.accuracy(store.parameters, model.to_floats(test.pixels), test.digits) > 0.9


def test_the_test_set_is_a_fifth_of_each_digit_and_its_rows_are_nowhere_else() -> None:
    train, test = data.load()
    assert (len(train.digits), len(test.digits)) == (1438, 359)
    for digit in range(10):
        total = (train.digits == digit).sum() + (test.digits == digit).sum()
        assert (test.digits == digit).sum() == pytest.approx(total / 5, abs=1)
    seen = {row.tobytes() for row in train.pixels}
    assert sum(row.tobytes() in seen for row in test.pixels) == 0


def test_each_row_is_in_one_shard_of_an_epoch_and_another_master_deals_the_same() -> None:
    train, _ = data.load()
    numbered = data.Digits(train.pixels, (np.arange(len(train.digits)) % 251).astype(np.uint8))
    count = data.shard_count(len(train.digits), 24)
    epochs = [
        np.concatenate([data.shard(numbered, seed=1, epoch=e, number=n, shard_rows=24).digits for n in range(count)])
        for e in (0, 1, 0)
    ]
    np.testing.assert_array_equal(np.sort(epochs[0]), np.sort(numbered.digits))
    np.testing.assert_array_equal(epochs[0], epochs[2])
    assert (epochs[0] != epochs[1]).any()


BAD_GRADIENTS: dict[str, tuple[dict[str, model.Floats], str]] = {
    "of a block that lies elsewhere": ({"w9.0": np.zeros(1, np.float32)}, "'w9.0' is not held here"),
    "of another shape": ({"b2.0": np.zeros(3, np.float32)}, r"'b2.0' has shape \(10,\), gradient \(3,\)"),
    "that is not finite": ({"b2.0": np.full(10, np.nan, np.float32)}, "not finite"),
}


@pytest.mark.parametrize("name", BAD_GRADIENTS)
def test_a_bad_gradient_changes_nothing(name: str) -> None:
    gradients, want = BAD_GRADIENTS[name]
    store = Store()
    store.restore(exported(), 5)
    good = {"b2.0": np.ones(10, np.float32)} if "b2.0" not in gradients else {}
    before = store.parameters["b2.0"]
    with pytest.raises(BadGradient, match=want):
        store.apply({**good, **gradients}, seen_version=5, learning_rate=0.1)
    np.testing.assert_array_equal(store.parameters["b2.0"], before)
    assert store.version == 5
