"""A team's batch table at drawn positions: only windows whose records lie on both sides of it need its own rows."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import BatchJob, Delta, Pipeline
from cutover.lake.job_rows import JobRowsNote, replace_job_rows
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.cli.show import list_explanation_lines
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.result.parts import JobTable
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, log_of_lake, micros, reconcile, write
from tests.support.suite.depth import depth

_TYPES: dict[str, pa.DataType] = {
    "window_start": pa.timestamp("us", tz="UTC"),
    "shop": pa.string(),
    "desk": pa.int32(),
    "sales": pa.int64(),
    "revenue": pa.int64(),
    "least": pa.int64(),
    "most": pa.int64(),
    "mean": pa.float64(),
}
COLUMNS = pa.schema(list(_TYPES.items()))
SALES = st.lists(
    st.builds(
        Sale,
        epoch=st.integers(0, 2),
        hour=st.integers(0, 4),
        shop=st.sampled_from(["a", "b", None]),
        amount=st.integers(-3, 3),
        kind=st.sampled_from(["accepted", "accepted", "late"]),
    ),
    min_size=1,
    max_size=12,
)


def with_job(table: Path) -> Pipeline:
    return replace(PIPELINE, batch=BatchJob(table=Delta(str(table))))


def compute(sales: Sequence[Sale]) -> list[dict[str, Any]]:
    """Return the rows of a batch job that has read some records."""
    return [dict(row) for row in lake_of(sales).batch] if sales else []


def write_table(table: Path, rows: Sequence[dict[str, Any]], position: object) -> None:
    selected = [{name: row[name] for name in COLUMNS.names} for row in rows]
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps(position)})
    write_deltalake(table, pa.Table.from_pylist(selected, schema=COLUMNS), mode="overwrite", commit_properties=note)


def find_job(finding: Finding) -> JobTable:
    (job,) = finding.jobs
    return job


@pytest.mark.quick
@depth(2, 60)
@given(sales=SALES, data=st.data())
def test_a_job_at_any_position_is_what_the_definition_says(sales: list[Sale], data: st.DataObject) -> None:
    ordered = sorted(sales, key=lambda sale: sale.epoch)
    end = data.draw(st.integers(0, len(ordered)))
    hours_before, hours_after = ({sale.hour for sale in part} for part in (ordered[:end], ordered[end:]))
    across = hours_before & hours_after
    rows = compute(ordered[:end])
    with TemporaryDirectory() as folder:
        pipeline, settings = with_job(Path(folder) / "job"), Settings(home=Path(folder) / "home")
        lake = PipelineLake(settings, pipeline)
        write(settings, lake_of(sales, pipeline), pipeline)
        write_table(Path(folder) / "job", rows, {"sales": {"0": end}})

        job = find_job(reconcile(lake).finding)

        assert (job.different, job.cells) == (0, ())
        assert job.level == ("bounded" if across else "reproduced")
        assert job.rows == sum((row["window_start"].hour not in across) for row in rows)

        windows = frozenset(map(micros, across))
        note = JobRowsNote(run_id="batch-1", topic_id="topic-1", ends={0: end}, windows=windows)
        at_position = [row for row in rows if row["window_start"].hour in across]
        replace_job_rows(
            lake, note, pa.Table.from_pylist(_complete(at_position, pipeline), schema=batch_schema(pipeline))
        )
        job = find_job(reconcile(lake).finding)
        assert (job.level, job.different, job.rows) == ("reproduced", 0, len(rows))

        if rows:
            place = data.draw(st.integers(0, len(rows) - 1))
            rows[place]["revenue"] += 1
            write_table(Path(folder) / "job", rows, {"sales": {"0": end}})
            finding = reconcile(lake).finding
            assert (finding.verdict, find_job(finding).different_values) == (Verdict.DIVERGED, 1)
            assert [cell.measure for cell in find_job(finding).cells] == ["revenue"]
            key = [None if rows[place][name] is None else str(rows[place][name]) for name in pipeline.key]
            explained = explain_cell(lake, rows[place]["window_start"], key, log=log_of_lake(lake_of(sales, pipeline)))
            assert explained.jobs[0].cells == find_job(finding).cells
            lines = " ".join(map(str, list_explanation_lines(explained)))
            assert "batch job  revenue is " in lines


def _complete(rows: Sequence[dict[str, Any]], pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return rows with the columns of the batch table."""
    names = batch_schema(pipeline).names
    return [{name: row.get(name) for name in names} for row in rows]


@given(sales=SALES, data=st.data())
@depth(5, 100)
def test_a_position_with_two_bounds_judges_windows_without_a_record_between_them(
    sales: list[Sale], data: st.DataObject
) -> None:
    ordered = sorted(sales, key=lambda sale: sale.epoch)
    lower = data.draw(st.integers(0, len(ordered)))
    end = data.draw(st.integers(lower, len(ordered)))
    upper = data.draw(st.integers(end, len(ordered)))
    position = {
        "format": "cutover.position/1",
        "topics": {"sales": {"0": lower}},
        "upto": {"sales": {"0": upper}},
    }
    with TemporaryDirectory() as folder:
        pipeline, settings = with_job(Path(folder) / "job"), Settings(home=Path(folder) / "home")
        write(settings, lake_of(sales, pipeline), pipeline)
        write_table(Path(folder) / "job", compute(ordered[:end]), position)

        job = find_job(reconcile(PipelineLake(settings, pipeline)).finding)

    between = {sale.hour for sale in ordered[lower:upper]}
    assert job.different == 0
    assert between or job.level == "reproduced" or job.not_judged > 0
    assert not between or job.level == "bounded" or job.not_judged == 0
