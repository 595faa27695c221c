"""Reports of training programs: which are refused, what the others change in a job's status."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.schema import StructuralSchema
from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tjworker.api import crd
from tjworker.api.kinds import KINDS
from tjworker.api.progress import (
    MAX_BODY_BYTES,
    MAX_COUNT,
    MAX_METRICS,
    MAX_METRICS_KEPT,
    MAX_SAMPLES,
    Placement,
    Progress,
    Refusal,
    Report,
    SpeedSample,
    fold_report,
    parse_report,
    read_progress,
    with_progress,
    without_percentage,
)
from tjworker.api.status import JobStatus

AT = 1_800_000_000.0
TWO = Placement(replicas=2, nodes=1)
NOTHING = Progress()


def body(**status: Any) -> bytes:
    return json.dumps({"trainerStatus": status}).encode()


def metric(name: str, value: object) -> bytes:
    return body(metrics=[{"name": name, "value": value}])


# -- Kubeflow's callbacks, byte for byte as their source makes the body ------------------------------

TRANSFORMERS = (
    b'{"trainerStatus": {"lastUpdatedTime": "2026-01-01T00:00:00.123456+00:00", "progressPercentage": 42,'
    b' "estimatedRemainingSeconds": 318, "metrics": [{"name": "loss", "value": "0.5"}, {"name": "grad_norm",'
    b' "value": "nan"}, {"name": "current_step", "value": "420"}, {"name": "total_steps", "value": "1000"},'
    b' {"name": "current_epoch", "value": "1.26"}]}}'
)
"""KubeflowCallback._update_status of transformers (src/transformers/integrations/integration_utils.py)."""
SDK_END = b'{"trainerStatus": {"lastUpdatedTime": "2026-01-01T00:00:00+00:00", "progressPercentage": 100}}'
"""update_trainjob_status(progress_percent=100) of the package kubeflow (trainer/backends/kubernetes/utils.py)."""

GOOD: dict[str, tuple[bytes, Report]] = {
    "the callback of transformers, with a loss that is no number": (
        TRANSFORMERS,
        Report(
            percentage=42,
            remaining_seconds=318,
            metrics=(
                ("loss", "0.5"),
                ("grad_norm", "nan"),
                ("current_step", "420"),
                ("total_steps", "1000"),
                ("current_epoch", "1.26"),
            ),
        ),
    ),
    "the function of Kubeflow's SDK, at the end": (SDK_END, Report(percentage=100)),
    "nothing": (b"{}", Report()),
    "a trainerStatus that is null": (b'{"trainerStatus": null}', Report()),
    "fractions, which are cut": (
        body(progressPercentage=12.9, estimatedRemainingSeconds=3.7),
        Report(percentage=12, remaining_seconds=3),
    ),
    "a metric as a number": (metric("loss", 0.25), Report(metrics=(("loss", "0.25"),))),
    "a speed": (metric("samples_per_second", "12.5"), Report(metrics=(("samples_per_second", "12.5"),), rate=12.5)),
    "a gradient noise scale, which is a ratio": (
        metric("gradient_noise_scale", "64"),
        Report(metrics=(("gradient_noise_scale", "64"),), grad_sqr=1.0, grad_var=64.0),
    ),
    "a field of a newer client": (body(progressPercentage=1, mood="good"), Report(percentage=1)),
    "as many metrics as there may be": (
        body(metrics=[{"name": f"m{i}", "value": "1"} for i in range(MAX_METRICS)]),
        Report(metrics=tuple((f"m{i}", "1") for i in range(MAX_METRICS))),
    ),
}


@pytest.mark.parametrize(("sent", "want"), GOOD.values(), ids=GOOD.keys())
def test_a_report_is_read(sent: bytes, want: Report) -> None:
    assert parse_report(sent) == want
    assert want.is_empty == (want == Report())


BAD: dict[str, tuple[bytes, str]] = {
    "too large": (b" " * (MAX_BODY_BYTES + 1), "at most 65536 are read"),
    "no JSON": (b"progress=3", "is not JSON"),
    "empty": (b"", "is not JSON"),
    "a list": (b"[]", "the report is list; it must be an object"),
    "a trainerStatus that is text": (b'{"trainerStatus": "42"}', "trainerStatus is '42'; it must be an object"),
    "negative progress": (body(progressPercentage=-1), "progressPercentage is -1; it must be a number from 0 to 100"),
    "progress beyond the end": (body(progressPercentage=101), "progressPercentage is 101"),
    "1e300": (body(progressPercentage=1e300), "progressPercentage is 1e+300"),
    "NaN, which JSON does not have": (b'{"trainerStatus": {"progressPercentage": NaN}}', "is not JSON"),
    "NaN as text": (body(progressPercentage="NaN"), "progressPercentage is 'NaN'"),
    "progress that is a truth": (body(progressPercentage=True), "progressPercentage is True"),
    "progress that is a list": (body(progressPercentage=[1]), "progressPercentage is list"),
    "a negative remaining time": (body(estimatedRemainingSeconds=-5), "estimatedRemainingSeconds is -5"),
    "a remaining time beyond an int32": (body(estimatedRemainingSeconds=2**31), "estimatedRemainingSeconds"),
    "a number with more digits than any float": (
        body(estimatedRemainingSeconds="9" * 5000),
        "estimatedRemainingSeconds is '999",
    ),
    "a negative speed": (metric("samples_per_second", "-1"), "metrics[samples_per_second] is '-1'"),
    "a speed of 1e300": (metric("samples_per_second", "1e300"), "metrics[samples_per_second]"),
    "a speed that is no number": (metric("samples_per_second", "nan"), "metrics[samples_per_second] is 'nan'"),
    "an infinite speed": (metric("samples_per_second", "inf"), "metrics[samples_per_second] is 'inf'"),
    "no replicas": (metric("replicas", "0"), "metrics[replicas] is '0'; it must be a number from 1 to 10000"),
    "a batch of none": (metric("batch_size", "0"), "metrics[batch_size]"),
    "a negative gradient": (metric("grad_sqr", "-0.5"), "metrics[grad_sqr]"),
    "metrics as a map": (body(metrics={"loss": 1}), "metrics is dict; it must be a list"),
    "too many metrics": (
        body(metrics=[{"name": "m", "value": "1"}] * (MAX_METRICS + 1)),
        "has 257 metrics; it must have at most 256",
    ),
    "a metric that is a number": (body(metrics=[3]), "metrics[0] is 3; it must be an object"),
    "a metric without a name": (body(metrics=[{"value": "1"}]), "metrics[0].name is None"),
    "a metric with an empty value": (metric("loss", ""), "metrics[0].value is ''"),
    "a value of 65 characters": (metric("loss", "x" * 65), "it must be text of 1 to 64 characters"),
    "a value that would move a terminal's cursor": (metric("loss", "\x1b[2J" * 20), "metrics[0].value"),
}


@pytest.mark.parametrize(("sent", "words"), BAD.values(), ids=BAD.keys())
def test_a_report_that_makes_no_sense_is_refused_with_the_field_and_the_rule(sent: bytes, words: str) -> None:
    got = parse_report(sent)
    assert isinstance(got, Refusal)
    assert got.reason == ("TooLarge" if len(sent) > MAX_BODY_BYTES else "InvalidReport")
    assert words in got.message
    assert len(got.message) < 400
    assert got.message.isprintable()


def folded(progress: Progress, report: Report, at: float = AT, placement: Placement = TWO) -> Progress:
    got = fold_report(progress, report, at, placement)
    assert isinstance(got, Progress)
    return got


# -- progress ----------------------------------------------------------------------------------------


def test_progress_that_moves_backwards_is_refused_and_that_which_stays_is_not() -> None:
    at_40 = folded(Progress(), Report(percentage=40, remaining_seconds=60))
    assert folded(at_40, Report(percentage=40), AT + 10).percentage == 40
    got = fold_report(at_40, Report(percentage=39, rate=5.0), AT + 10, TWO)
    assert isinstance(got, Refusal)
    assert got.reason == "MovedBackwards"


# -- speeds ------------------------------------------------------------------------------------------


def test_a_row_is_the_mean_of_its_reports_and_each_size_has_its_own() -> None:
    known = Progress()
    for second, (rate, placement) in enumerate([(10.0, TWO), (20.0, TWO), (33.0, TWO), (40.0, Placement(4, 2))]):
        known = folded(known, Report(rate=rate), AT + second, placement)
    assert known.samples == (SpeedSample(2, 1, 21.0, 3, AT + 2), SpeedSample(4, 2, 40.0, 1, AT + 3))


def test_the_table_is_bounded_and_forgets_the_size_that_was_seen_least_recently() -> None:
    known = Progress()
    for size in range(1, MAX_SAMPLES + 2):
        known = folded(known, Report(rate=1.0), AT + size, Placement(size, 1))
    assert [s.replicas for s in known.samples] == list(range(2, MAX_SAMPLES + 2))


def test_the_noise_of_the_gradient_follows_the_last_reports() -> None:
    known = Progress(samples=(SpeedSample(2, 1, 10.0, MAX_COUNT, AT, 64, 1.0, 1.0),))
    for second in range(10):
        known = folded(known, Report(rate=10.0, batch_size=64, grad_sqr=1.0, grad_var=100.0), AT + second)
    assert 85 < (known.samples[0].grad_var or 0) < 100


@dataclass(frozen=True)
class Move:
    """One report after a move at AT."""

    seconds_after: float
    known: Progress = NOTHING
    settled: bool = True
    rate: float | None = 7.0
    want_rescale: float | None = None
    want_sample: bool = False


MEASURED = Progress(rescale_seconds=20.0, rescale_measured_at=AT)
MOVES: dict[str, Move] = {
    "the first speed after a move measures it, and is no sample": Move(12, want_rescale=12.0),
    "one while replicas are still missing says nothing": Move(12, settled=False),
    "one without a speed measures nothing": Move(12, rate=None),
    "a speed of none is no sample": Move(60, MEASURED, rate=0.0, want_rescale=20.0),
    "one within the pause is no sample": Move(19, MEASURED, want_rescale=20.0),
    "one after the pause is a sample": Move(20, MEASURED, want_rescale=20.0, want_sample=True),
    "a later move is measured anew": Move(
        8, Progress(rescale_seconds=20.0, rescale_measured_at=AT - 100), want_rescale=8.0
    ),
}


@pytest.mark.parametrize("case", MOVES.values(), ids=MOVES.keys())
def test_after_a_move(case: Move) -> None:
    placement = Placement(2, 1, settled=case.settled, moved_at=AT)
    got = folded(case.known, Report(rate=case.rate), AT + case.seconds_after, placement)
    assert got.rescale_seconds == case.want_rescale
    assert bool(got.samples) == case.want_sample


# -- the status --------------------------------------------------------------------------------------

FULL = Progress(
    percentage=42,
    remaining_seconds=318,
    reported_at=AT,
    samples=tuple(SpeedSample(n, 1, 1.5 * n, n, AT, 8 * n, 0.25, 2.0) for n in range(1, MAX_SAMPLES + 1)),
    rescale_seconds=12.0,
    rescale_measured_at=AT - 60,
)
METRICS = [(f"m{i}".ljust(64, "x"), "y" * 64) for i in range(MAX_METRICS)]


def test_the_crd_accepts_the_fullest_progress_and_it_is_small_beside_a_manifest() -> None:
    written = with_progress(JobStatus(), FULL, METRICS).to_json()
    assert len(written["trainerStatus"]["metrics"]) == MAX_METRICS_KEPT
    assert len(json.dumps(written)) < 20_000
    obj = make_job().role("trainer").object() | {"status": written}
    schema = StructuralSchema(crd.schema(KINDS[AITRAININGJOBS]))
    assert schema.prune(obj) == []
    assert [str(error) for error in schema.validate(obj)] == []
    assert obj["status"] == written


def test_a_new_attempt_may_begin_at_an_older_checkpoint() -> None:
    status = without_percentage(with_progress(JobStatus(), FULL, [("loss", "0.5")]))
    known = read_progress(status)
    assert (known.percentage, known.remaining_seconds) == (None, None)
    assert (known.samples, known.rescale_seconds) == (FULL.samples, FULL.rescale_seconds)
    assert folded(known, Report(percentage=0), AT + 1).percentage == 0
    assert without_percentage(JobStatus()) == JobStatus()
