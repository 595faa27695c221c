"""A checkpoint comes back as it went, and half a one is never taken for a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.digits import checkpoint
from examples.digits.model import initial_parameters
from examples.digits.optimizer import Store


def make(version: int = 3) -> tuple[checkpoint.Checkpoint, Store]:
    store = Store()
    store.restore({f"p/{name}": array for name, array in initial_parameters(1).items()}, version)
    store.apply({"b2.0": np.ones(10, np.float32)}, seen_version=version, learning_rate=0.1)
    queue = {"shards": 60, "epoch": 2, "done": [1, 5]}
    return checkpoint.Checkpoint(queue, (store.version, 0), (store.export(), {})), store


def test_a_server_restored_from_a_checkpoint_goes_on_as_the_one_before(tmp_path: Path) -> None:
    saved, first = make()
    checkpoint.save(tmp_path / "new", saved)
    loaded = checkpoint.load(tmp_path / "new")
    assert loaded is not None
    assert (loaded.queue, loaded.versions) == (saved.queue, saved.versions)
    second = Store()
    second.restore(loaded.exports[0], loaded.versions[0])
    for store in (first, second):
        store.apply({"b2.0": np.full(10, 0.5, np.float32)}, seen_version=store.version, learning_rate=0.1)
    np.testing.assert_array_equal(first.parameters["b2.0"], second.parameters["b2.0"])


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path) is None


def test_a_crash_while_writing_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, make(3)[0])
    (tmp_path / (checkpoint.FILE + ".new")).write_bytes(b"half")
    loaded = checkpoint.load(tmp_path)
    assert loaded is not None
    assert loaded.versions == (4, 0)
    checkpoint.save(tmp_path, make(7)[0])
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]


@pytest.mark.parametrize("content", [b"", b"half", b"PK\x03\x04" + b"x" * 40])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / checkpoint.FILE).write_bytes(content)
    with pytest.raises(checkpoint.BadCheckpoint, match=r"checkpoint\.npz is not a checkpoint of this training"):
        checkpoint.load(tmp_path)
