"""Packed records: they come back as they were, whatever they are, and what the watcher writes becomes short."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.support.builders.cluster import make_node, make_pod, make_service
from tests.support.builders.job import make_job
from tjworker.api.records_json import encode
from tjworker.store.packing import pack, unpack

UIDS = [f"{number:08x}-6709-4347-bf02-83a32bc318aa" for number in range(3)]
_BUILT = make_job().role("trainer", replicas=2)
JOB = _BUILT.build()
WRITTEN = {
    "a job": orjson.dumps(_BUILT.raw),
    "a pod that runs": encode(replace(make_pod(JOB, "trainer").running().build(), uid=UIDS[0], owner_uid=UIDS[1])),
    "a pod that failed": encode(replace(make_pod(JOB, "trainer").failed().build(), uid=UIDS[0])),
    "a service": encode(replace(make_service(JOB, "trainer"), uid=UIDS[2], owner_uid=UIDS[1])),
    "a node": encode(make_node().build()),
}
OTHERS = {
    "no bytes": b"",
    "one byte": b"\x00",
    "text of a user": '{"message":"Straße, 训练"}'.encode(),
    "no UTF-8": bytes(range(256)) * 9,
    "a job as large as etcd takes": orjson.dumps({"spec": {"args": [str(n) for n in range(180_000)]}}),
}
RECORDS = WRITTEN | OTHERS


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_a_record_comes_back_as_it_was(record: bytes) -> None:
    assert unpack(pack(record)) == record
    assert pack(record) == pack(record), "the same again is no news to the store"


@pytest.mark.parametrize("record", WRITTEN.values(), ids=list(WRITTEN))
def test_of_what_the_watcher_writes_at_most_a_third_is_left(record: bytes) -> None:
    assert len(pack(record)) <= len(record) / 3


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_what_is_cut_off_or_goes_on_is_told_from_a_record(record: bytes) -> None:
    packed = pack(record)
    for broken in (b"", packed[:-1], packed[: len(packed) // 2], packed + b"\x00", packed * 2):
        with pytest.raises(ValueError, match="not a packed record"):
            unpack(broken)
