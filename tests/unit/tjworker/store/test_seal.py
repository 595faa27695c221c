"""The seal on a record: whoever changes one bit of it, or its place, or has another key, does not open it."""

from __future__ import annotations

import pytest

from tjworker.store import packing
from tjworker.store.seal import Seal

KEYS = ["first-" * 6, "second-" * 5]
RECORD = b'{"metadata":{"uid":"u1","resourceVersion":"5"}}'
PLACE = ("job", "trainingjobs.paddlepaddle.org/default/a", "pods/a-0")


@pytest.fixture
def seal() -> Seal:
    return Seal(KEYS[:1], "tj")


@pytest.mark.parametrize(
    "place",
    [
        ("job", "trainingjobs.paddlepaddle.org/default/b", "pods/a-0"),
        ("job", "trainingjobs.paddlepaddle.org/other/a", "pods/a-0"),
        ("job", "aitrainingjobs.elasticdeeplearning.ai/default/a", "pods/a-0"),
        ("job", "trainingjobs.paddlepaddle.org/default/a", "pods/a-1"),
        ("job", "trainingjobs.paddlepaddle.org/default/a", "services/a-0"),
        ("job", "trainingjobs.paddlepaddle.org/default/apods/a-0", ""),
        ("job", "trainingjobs.paddlepaddle.org/default", "a/pods/a-0"),
        ("node", "trainingjobs.paddlepaddle.org/default/a", "pods/a-0"),
    ],
    ids="/".join,
)
def test_it_is_opened_in_no_other_place(place: tuple[str, ...], seal: Seal) -> None:
    assert seal.open(seal.seal(RECORD, *PLACE), *place) is None


def test_not_one_bit_of_it_may_differ(seal: Seal) -> None:
    sealed = seal.seal(RECORD, *PLACE)
    assert all(
        seal.open(sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :], *PLACE) is None
        for at in range(len(sealed))
        for bit in range(8)
    )


@pytest.mark.parametrize(
    ("of", "by", "want"),
    [
        (Seal(KEYS[1:], "tj"), Seal(KEYS[:1], "tj"), False),
        (Seal(KEYS[1:], "tj"), Seal(KEYS, "tj"), True),
        (Seal(KEYS[::-1], "tj"), Seal(KEYS[:1], "tj"), False),
        (Seal(KEYS[::-1], "tj"), Seal(KEYS, "tj"), True),
        (Seal(KEYS, "tk"), Seal(KEYS, "tj"), False),
    ],
    ids=[
        "another key",
        "an older key, while it is still taken",
        "the new key, where it is not known yet",
        "the new key, where it is known",
        "another prefix",
    ],
)
def test_the_first_key_seals_and_each_opens(of: Seal, by: Seal, want: bool) -> None:
    assert (by.open(of.seal(RECORD, *PLACE), *PLACE) is not None) is want


def test_what_cannot_be_unpacked_is_not_opened(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other_version:
        other_version.setattr(packing, "pack", lambda record: record)
        sealed = seal.seal(RECORD, *PLACE)
    assert seal.open(sealed, *PLACE) is None


def test_who_packs_with_other_words_has_another_seal_and_name(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a worker of another version would unpack a record into something else, and trust it."""
    monkeypatch.setattr(packing, "FORM", bytes(16))
    other = Seal(KEYS[:1], "tj")
    assert other.open(seal.seal(RECORD, *PLACE), *PLACE) is None
    assert other.name != seal.name


def test_records_have_the_form_that_they_had_in_the_version_before() -> None:
    """While processes of two versions run whose records differ in form, no pass runs. If you change the form (the seal,
    how records are packed, record_words.txt), write these anew, and say so in CHANGELOG.md."""
    form = Seal(["k" * 32], "tj")
    assert (form.name, form.seal(b"{}", "job")[:3]) == ("66f9ee955dc925e5", b"s2.")
