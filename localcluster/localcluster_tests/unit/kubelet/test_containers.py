"""A container's keeper as the kubelet sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from localcluster.kubelet.containers import Container
from localcluster_tests.support.waiting import until


def test_a_keeper_that_takes_its_time_to_end_after_its_last_word_stays_no_zombie(tmp_path: Path) -> None:
    (tmp_path / "exit.json").write_text('{"code": 3, "started": 1.0, "finished": 2.0}')
    container = Container(tmp_path)
    keeper = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    container.process = keeper
    assert keeper.stdin is not None
    with keeper.stdin:
        assert (container.look().kind, container.look().exit_code, keeper.returncode) == ("exited", 3, None)
    until("it is taken in", lambda: container.look() and keeper.returncode is not None, 30)
