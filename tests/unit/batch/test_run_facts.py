"""Facts recorded by a run: its log line, its contract results and the bytes it wrote."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cutover.batch.write import publish
from cutover.definition import Count, Expect, Fixed, Pipeline, Topic
from cutover.engine.usage import PathCost
from cutover.errors import ContractError
from cutover.lake.batch_runs import BatchRun, ExpectationResult, Incomplete
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

PIPELINE = Pipeline(
    name="flights",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    contract=(Expect(type="expect_column_max_to_be_between", arguments={"column": "n"}),),
)
NOON, HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(hours=1)
RUN = BatchRun(
    run_id="batch-1",
    epoch=3,
    stream_version=0,
    topic="t",
    topic_id="T",
    cluster_id="C",
    cut={0: 50, 1: 9},
    scanned={0: (20, 50), 1: (4, 9)},
    watermark=None,
    result_fingerprint="f",
    batch_fingerprint="same",
    isolation="read_committed",
    computed=((0, 1), (2, 3)),
    stale=((5, 6),),
    incomplete=(Incomplete(window_start=0, window_end=1, reason="expired"),),
    batch_version=7,
    counts={"accepted": 35},
    seconds=1.5,
)


def test_the_line_of_a_run_counts_records_and_ranges() -> None:
    assert publish.summarize_run(RUN) == {
        "run_id": "batch-1",
        "epoch": 3,
        "scanned": 30 + 5,
        "counts": {"accepted": 35},
        "computed": 2,
        "stale": 1,
        "incomplete": 1,
        "batch_version": 7,
        "seconds": 1.5,
    }


def kept(name: str, *, success: bool, severity: Any = "critical") -> ExpectationResult:
    return ExpectationResult(expectation=name, severity=severity, success=success, observed=f"{name} seen")


@pytest.mark.parametrize(
    "results",
    [
        (kept("a", success=True), kept("b", success=True)),
        (kept("a", success=False, severity="warning"), kept("b", success=True)),
    ],
    ids=["all hold", "a warning"],
)
def test_a_result_that_satisfies_critical_expectations_is_published_with_observations(
    monkeypatch: pytest.MonkeyPatch, results: tuple[ExpectationResult, ...]
) -> None:
    monkeypatch.setattr(publish, "_frame", lambda *_: ["a row"])
    monkeypatch.setattr(publish, "_run", lambda *_: results)

    assert publish.run_expectations(PIPELINE, Mock(), "staged") == results


def test_a_result_without_rows_satisfies_no_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    results = (kept("a", success=True), kept("b", success=False, severity="warning"))
    monkeypatch.setattr(publish, "_frame", lambda *_: [])
    monkeypatch.setattr(publish, "_run", lambda *_: results)

    assert publish.run_expectations(PIPELINE, Mock(), "staged") == results[1:]


def test_failed_critical_expectations_are_named_with_their_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    results = (kept("a", success=False), kept("b", success=False, severity="warning"), kept("c", success=True))
    monkeypatch.setattr(publish, "_frame", lambda *_: ["a row"])
    monkeypatch.setattr(publish, "_run", lambda *_: results)

    with pytest.raises(ContractError) as refused:
        publish.run_expectations(PIPELINE, Mock(), "staged")

    assert refused.value.text == (
        "Contract of `flights`: expected every critical expectation to hold on the staged result, got:\n"
        "  a: got a seen\nHint: nothing was published."
    )


@pytest.mark.parametrize(
    ("exception", "result", "observed"),
    [
        (None, {"unexpected_count": 0, "element_count": 9}, "0 unexpected of 9"),
        (None, {"unexpected_count": 2}, "2 unexpected of ?"),
        (None, {"observed_value": 7}, "7"),
        (None, None, "no value"),
        ({"exception_message": None}, {"observed_value": 7}, "7"),
        ({"exception_message": "no column n\nat a place"}, {"observed_value": 7}, "an error: no column n"),
    ],
)
def test_observation_of_an_expectation_is_a_count_or_a_value(
    exception: dict[str, Any] | None, result: dict[str, Any] | None, observed: str
) -> None:
    validation = SimpleNamespace(success=False, exception_info=exception, result=result)
    expect = Expect(type="expect_it", arguments={"b": 1, "a": "x"}, severity="warning")

    assert publish._result(expect, validation) == ExpectationResult(
        expectation="expect_it(a='x', b=1)", severity="warning", success=False, observed=observed
    )


def rows(*hours: int) -> pa.Table:
    at = [NOON + hour * HOUR for hour in hours]
    row_dicts = [{"window_start": start, "window_end": start + HOUR, "k": "a", "n": 1, "_n": 1} for start in at]
    return pa.Table.from_pylist(row_dicts, schema=batch_schema(PIPELINE))


@pytest.mark.parametrize("earlier_cost", [None, PathCost(core_seconds=2.0, read_bytes=5, written_bytes=100)])
def test_cost_of_a_run_is_its_own_bytes_plus_its_earlier_cost(
    settings: Settings, earlier_cost: PathCost | None
) -> None:
    noon = round(NOON.timestamp()) * 1_000_000
    lake = PipelineLake(settings, PIPELINE)
    for run_id, hour in (("another", 1), ("batch-1", 0), ("batch-1", 2)):
        run = SimpleNamespace(run_id=run_id, epoch=0, cost=earlier_cost)
        start = noon + hour * 3_600_000_000
        staged: Any = SimpleNamespace(
            run=run,
            rows=rows(hour),
            replaced=[(start, start + 3_600_000_000)],
            retained_rows=None,
            meter=Mock(measure=lambda: None),
        )
        publish._replace(lake, staged)
    actions = delta.actions(delta.open_table(lake.batch_uri()))
    own_sizes = [int(str(action["size_bytes"])) for action in actions if "-batch-1-" in str(action["path"])]

    cost = publish._measure_cost(lake, staged)

    assert len(own_sizes) == 2
    assert cost.written_bytes == own_sizes[0] + own_sizes[1] + (0 if earlier_cost is None else 100)
