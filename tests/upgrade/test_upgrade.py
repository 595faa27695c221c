"""Upgrades and rollbacks in every order, with thirty jobs: pods stay, nothing is lost, and once all processes are of
one version a new job runs and a failed pod is replaced. Some five minutes of waiting, hence long. With `-s` it prints
the table of docs/operations.md, as `python -m tests.upgrade` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.jobs import SAMPLES
from tests.upgrade.lab import BROKE, DROPPED, OLD_COMMIT, later_version, old_version, open_lab, this_version
from tests.upgrade.steps import play, table


@pytest.mark.long
@pytest.mark.e2e(minutes=5)
@pytest.mark.xdist_group("upgrade")
def test_every_order_of_upgrade_and_rollback_leaves_jobs_as_they_are(tmp_path: Path) -> None:
    old, later = old_version(tmp_path / "old"), later_version(tmp_path / "later")
    if old is None:
        pytest.skip(f"this checkout does not have the commit {OLD_COMMIT} (a shallow clone?)")
    with open_lab(tmp_path) as lab:
        rows = play(lab, old, this_version(), later)
        logs = {**lab.watcher_logs(this_version()), **lab.watcher_logs(later)}
    print("\n".join(table(rows)))  # noqa: T201  the table is what a reader wants
    assert {row.step: (row.touched, row.lost) for row in rows if row.touched or row.lost} == {}
    assert all(row.healthy > len(SAMPLES) for row in rows)
    for name, text in logs.items():
        assert (text.count(BROKE), text.count("Traceback")) == (0, 0), name
    # One each: three upgrades from the old version, one to the later version and one back. Redis was emptied between.
    told = [text.count(DROPPED) for text in logs.values()]
    assert told == [1] * 5, logs
