from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.definition import SameDefinition, Sql
from cutover.errors import DefinitionError
from cutover.lake.batch_runs import read_effective_runs
from cutover.pipeline_lake import PipelineLake
from tests.integration.batch.lab import BASE, HOUR, Lab, hours

FIRST = datetime.fromtimestamp(BASE, UTC)

QUERY = """
SELECT date_trunc('HOUR', event_time) AS window_start, carrier, count(*) AS flights, sum(delay) AS delay,
       max(delay) AS worst, avg(delay) AS mean
FROM events {where} GROUP BY ALL
"""
WINDOWED = """
SELECT window.start AS window_start, carrier, count(*) AS flights, sum(delay) AS delay, max(delay) AS worst,
       avg(delay) AS mean
FROM events WHERE _class = 'accepted' GROUP BY window(event_time, '1 hour'), carrier
"""


@pytest.fixture
def team(lab: Lab, tmp_path: Path) -> Lab:
    lab.pipeline = replace(lab.pipeline, batch=Sql("legacy.sql"), file=tmp_path / "definition.py")
    write(lab, QUERY.format(where=""))
    return lab


def write(lab: Lab, text: str) -> None:
    assert lab.pipeline.file is not None
    (lab.pipeline.file.parent / "legacy.sql").write_text(text, encoding="utf-8")


def test_the_teams_sql_sees_what_the_definition_filters(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (1, 20, "XX", 7), (0, 3_700, "AA", 1), (1, 7_300, "AA", 9))
    team.commit_epoch(watermark=2 * HOUR)

    batch_run = recompute_windows(team.lake)

    assert batch_run is not None
    assert hours(batch_run.computed) == [(0, 2)]
    expected = [(0, "AA", 1, Decimal(5), 5, 5.0), (0, "XX", 1, Decimal(7), 7, 7.0), (1, "AA", 1, Decimal(1), 1, 1.0)]
    assert team.table(batch_run, "carrier", "flights", "delay", "worst", "mean") == expected


@pytest.mark.quick
def test_windows_of_spark_may_be_grouped_by(team: Lab) -> None:
    write(team, WINDOWED)
    team.send((0, 10, "AA", 5), (0, 3_700, "AA", 1))
    team.commit_epoch(watermark=2 * HOUR)

    batch_run = recompute_windows(team.lake)

    assert batch_run is not None
    assert team.table(batch_run, "carrier", "flights") == [(0, "AA", 1), (1, "AA", 1)]


def test_a_window_is_computed_from_all_its_records_when_it_is_touched_again(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (1, 20, "AA", 7), (0, 3_700, "AA", 1))
    team.commit_epoch(watermark=2 * HOUR)
    recompute_windows(team.lake)
    team.send((1, 30, "XX", 100))
    team.commit_epoch(watermark=2 * HOUR)

    batch_run = recompute_windows(team.lake)

    assert batch_run is not None
    assert hours(batch_run.computed) == [(0, 1)]
    assert team.table(batch_run, "carrier", "flights") == [(0, "AA", 2), (0, "XX", 1), (1, "AA", 1)]


def test_another_sql_makes_every_window_dirty_and_clears_what_it_leaves_out(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (1, 20, "XX", 7), (0, 3_700, "XX", 1))
    team.commit_epoch(watermark=2 * HOUR)
    recompute_windows(team.lake)
    write(team, QUERY.format(where="WHERE _class = 'accepted'"))

    batch_run = recompute_windows(team.lake, confirmed=True)

    assert batch_run is not None
    assert hours(batch_run.computed) == [(0, 2)]
    assert team.table(batch_run, "carrier", "flights") == [(0, "AA", 1)]
    assert {row["_run"] for row in team.rows("batch_ledger", batch_run.ledger_version)} == {batch_run.run_id}


def test_from_the_definition_to_the_teams_sql_the_table_changes_its_columns(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (1, 20, "XX", 7))
    team.commit_epoch(watermark=HOUR)
    recompute_windows(PipelineLake(team.settings, replace(team.pipeline, batch=SameDefinition())))

    batch_run = recompute_windows(team.lake)

    assert team.table(batch_run, "carrier", "flights") == [(0, "AA", 1), (0, "XX", 1)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT carrier FROM events", "expected the columns window_start, carrier, flights, .*each once, got carrier"),
        ("SELECT nothing FROM events", "expected a query that Spark takes, got: .*nothing"),
        ("DROP TABLE events", "expected one query that changes nothing, got DROP"),
        (QUERY.format(where="").replace("sum(delay)", "sum(delay) + 0.5"), "`delay`: expected .*1 values would change"),
        (QUERY.format(where="").replace("sum(delay)", "'x'"), r"column `delay`: expected DECIMAL\(38,0\), got VARCHAR"),
        (QUERY.format(where="").replace("'HOUR'", "'MINUTE'"), "expected a `window_start` of the definition's windows"),
        (
            QUERY.format(where="").replace("GROUP BY ALL", "GROUP BY 1, 2, seq"),
            "expected one row for each window_start",
        ),
    ],
)
def test_sql_that_does_not_fit_publishes_nothing(team: Lab, query: str, message: str) -> None:
    team.send((0, 70, "AA", 5), (0, 80, "AA", 5))
    team.commit_epoch(watermark=HOUR)
    write(team, query)

    with pytest.raises(DefinitionError, match=message):
        recompute_windows(team.lake)

    assert read_effective_runs(team.lake) == []


@pytest.mark.parametrize(
    ("where", "lost"),
    [
        ("carrier = 'none'", "3 of these rows; 2 windows would have no row, the first at "),
        ("_offset < 2", "1 of these rows; 1 window would have no row"),
        ("carrier = 'AA' AND _offset > 0", "2 of these rows; 1 window would have no row"),
    ],
)
def test_sql_that_leaves_out_windows_is_rejected_until_a_person_confirms_it(team: Lab, where: str, lost: str) -> None:
    team.send((0, 10, "AA", 5), (0, 20, "BB", 5), (0, 3_700, "AA", 7))
    team.commit_epoch(watermark=2 * HOUR)
    recompute_windows(team.lake)
    write(team, QUERY.format(where=f"WHERE {where}"))

    with pytest.raises(DefinitionError, match=lost):
        recompute_windows(team.lake)

    assert len(read_effective_runs(team.lake)) == 1
    assert recompute_windows(team.lake, confirmed=True) is not None


def test_sql_that_leaves_out_half_of_the_rows_is_rejected_until_the_definition_lets_it(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (0, 20, "BB", 5), (0, 30, "CC", 5), (0, 40, "DD", 5))
    team.commit_epoch(watermark=HOUR)
    recompute_windows(team.lake)
    write(team, QUERY.format(where="WHERE carrier < 'C'"))

    with pytest.raises(DefinitionError, match="2 of these rows"):
        recompute_windows(team.lake)

    team.pipeline = replace(team.pipeline, batch=Sql("legacy.sql", may_remove_rows=True))
    batch_run = recompute_windows(team.lake)
    assert batch_run is not None
    assert team.table(batch_run, "carrier") == [(0, "AA"), (0, "BB")]


def test_sql_may_leave_out_a_few_rows(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (0, 20, "BB", 5), (0, 30, "CC", 5))
    team.commit_epoch(watermark=HOUR)
    recompute_windows(team.lake)
    write(team, QUERY.format(where="WHERE carrier < 'C'"))

    assert recompute_windows(team.lake) is not None


def test_anew_does_not_read_a_batch_table_that_lacks_a_file(team: Lab) -> None:
    team.send((0, 10, "AA", 5), (0, 20, "BB", 5))
    team.commit_epoch(watermark=HOUR)
    recompute_windows(team.lake)
    next(Path(team.lake.batch_uri()).rglob("*.parquet")).unlink()

    batch_run = recompute_windows(team.lake, anew=True)

    assert batch_run is not None
    assert team.table(batch_run, "carrier") == [(0, "AA"), (0, "BB")]
