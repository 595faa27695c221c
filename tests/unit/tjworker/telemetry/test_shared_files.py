"""A scrape of a worker reads the files of its children while they are created."""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict

from tjworker.telemetry.scrape import SharedFiles


def test_a_file_that_a_child_has_just_created_spoils_no_scrape(tmp_path: Path) -> None:
    counted = MmapedDict(str(tmp_path / "counter_main.db"))  # type: ignore[no-untyped-call]
    key = json.dumps(["passes", "passes_total", {}, "passes that were run"])
    counted.write_value(key, 3.0, 0.0)  # type: ignore[no-untyped-call]
    (tmp_path / "counter_child-0.db").touch()
    registry = CollectorRegistry()
    registry.register(SharedFiles(tmp_path))
    assert "passes_total 3.0" in generate_latest(registry).decode()
