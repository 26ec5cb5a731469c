"""The serving table: one name, one commit a change, the rows of the view for every reader."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Count, Daily, Fixed, Lateness, Pipeline, Sum
from cutover.definition.model.policy import Stage
from cutover.definition.windows.kinds import Sessions
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.serving import serving_table, views
from cutover.lake.serving.vacuum import delete_unlisted_files
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_ledger_schema, epoch_log_schema
from cutover.pipeline_lake import PipelineLake, serving_uri
from cutover.reconcile.gate import stage
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, micros, replace_batch, write
from tests.support.history.journal_rows import record_stage
from tests.support.suite.until import until

HOSTILE = ("<script>alert(1)</script>", "a'b\"c", "line\nbreak", "\x1b[31m", "", None)
SALES = tuple(
    Sale(epoch=hour % 2, hour=hour * 50, shop=HOSTILE[hour % len(HOSTILE)], amount=hour, kind=kind)
    for hour, kind in enumerate(
        ["accepted", "late", "accepted", "accepted", "late", "accepted", "accepted", "accepted"]
    )
)


@pytest.fixture(autouse=True)
def ledger(settings: Settings) -> None:
    delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_ledger"), batch_ledger_schema(PIPELINE))


def record_move(settings: Settings, name: str) -> None:
    """Append a move, as if it had been allowed."""
    record_stage(PipelineLake(settings, PIPELINE), name)


def read_view(settings: Settings, pipeline: Pipeline = PIPELINE) -> list[tuple[object, ...]]:
    with views.open_views(PipelineLake(settings, pipeline)) as connection:
        return connection.execute("SELECT * FROM serving ORDER BY ALL").fetchall()


def read_delta(settings: Settings, pipeline: Pipeline = PIPELINE) -> list[tuple[object, ...]]:
    """Return what any reader of Arrow sees, without the partition column."""
    rows = DeltaTable(serving_uri(settings, pipeline.name)).to_pyarrow_table().drop_columns(["_month"])
    with queries.open_duckdb() as connection:
        connection.register("rows", rows)
        columns = ", ".join(f'"{name}"' for name in views_columns(pipeline))
        return connection.execute(f"SELECT {columns} FROM rows ORDER BY ALL").fetchall()  # noqa: S608 -- ours


def views_columns(pipeline: Pipeline) -> list[str]:
    return ["window_start", "window_end", *pipeline.key, *pipeline.measures, "_served_by", "_state"]


@pytest.mark.parametrize("name", ["LAMBDA", "SHADOW", "KAPPA"])
def test_table_holds_the_rows_of_the_view(settings: Settings, name: str) -> None:
    write(settings, lake_of(SALES))
    record_move(settings, name)

    publication = serving_table.publish(PipelineLake(settings, PIPELINE))

    assert read_delta(settings) == read_view(settings)
    assert (publication.stage, publication.version, publication.rows, publication.epoch) == (
        Stage(name),
        0,
        len(read_view(settings)),
        1,
    )


@pytest.mark.parametrize(
    "window", [Fixed(hours=6), Daily(zone="Europe/Oslo"), Sessions(gap="2 hours")], ids=["fixed", "daily", "sessions"]
)
def test_every_window_can_be_published(settings: Settings, window: AlignedWindowFn | Sessions) -> None:
    pipeline = replace(PIPELINE, window=window, measures={"sales": Count(), "revenue": Sum("amount")})
    lake = PipelineLake(settings, pipeline)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(pipeline))
    write(settings, lake_of([Sale(hour=hour) for hour in range(3)], pipeline), pipeline)

    serving_table.publish(lake)

    assert read_delta(settings, pipeline) == read_view(settings, pipeline)


def test_nothing_new_commits_nothing(settings: Settings) -> None:
    write(settings, lake_of(SALES))

    lake = PipelineLake(settings, PIPELINE)
    first_publication, second = serving_table.publish(lake), serving_table.publish(lake)

    assert (first_publication.months, second.months) == (("2026-01",), ())
    assert (second.version, DeltaTable(serving_uri(settings, PIPELINE.name)).version()) == (0, 0)


def test_only_months_that_changed_are_written(settings: Settings) -> None:
    lake = lake_of([Sale(hour=hour) for hour in (0, 800, 1600)])
    write(settings, replace(lake, run=replace(lake.run, computed=((micros(0), micros(1601)),))))
    pipeline_lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(pipeline_lake)
    run = replace(lake.run, run_id="again", anew=True, computed=((micros(0), micros(1)),))
    replace_batch(settings, replace(lake, run=run))

    second_publication = serving_table.publish(pipeline_lake)

    assert second_publication.months == ("2026-02", "2026-03")
    assert read_delta(settings) == read_view(settings)


def test_what_others_changed_is_written_again(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    DeltaTable(serving_uri(settings, PIPELINE.name)).delete("revenue > 2")
    assert read_delta(settings) != read_view(settings)

    serving_table.publish(lake)

    assert read_delta(settings) == read_view(settings)


@pytest.mark.quick
def test_a_damaged_file_is_written_again(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    uri = serving_uri(settings, PIPELINE.name)
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    (file,) = (Path(uri) / path for path in delta.paths(delta.open_table(uri)))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    serving_table.publish(lake)

    assert read_delta(settings) == read_view(settings)


def test_another_definition_takes_the_same_name(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    serving_table.publish(PipelineLake(settings, PIPELINE))
    other = replace(PIPELINE, measures={"sales": Count()})
    lake = PipelineLake(settings, other)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(other))
    with pytest.raises(LakeError, match="expected an epoch log"):
        serving_table.publish(lake)
    assert read_delta(settings) == read_view(settings)
    write(settings, lake_of(SALES, other), other)

    publication = serving_table.publish(lake)

    assert (read_delta(settings, other), publication.version) == (read_view(settings, other), 1)


def test_who_read_before_another_published_tries_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    record_move(settings, "SHADOW")
    real, overtaken_once = commits.replace, list[str]()

    def overtaken(*args: object, **keywords: object) -> None:
        if not overtaken_once:
            overtaken_once.append("once")
            record_move(settings, "LAMBDA")
            message = "version 1 was made"
            raise CommitFailedError(message)
        real(*args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(commits, "replace", overtaken)

    publication = serving_table.publish(lake)

    assert (publication.stage, overtaken_once) == (Stage.LAMBDA, ["once"])
    assert read_delta(settings) == read_view(settings)


@contextmanager
def reading(settings: Settings, files: Sequence[Path]) -> Iterator[None]:
    """Let processes read in a loop, one for each file, which takes what it saw; yields once each has read."""
    with ExitStack() as ending:
        for file in files:
            output_file = ending.enter_context(file.open("w", encoding="utf-8"))
            command = [
                sys.executable,
                "-m",
                "tests.support.drivers.serving_reader",
                serving_uri(settings, PIPELINE.name),
            ]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output_file)
            ending.callback(process.wait, 60)
            assert process.stdin is not None
            ending.callback(process.stdin.close)
        until(lambda: all(file.stat().st_size for file in files), within=60)
        yield


def seen_by(file: Path) -> list[tuple[int, str, int]]:
    """Return what a reader saw: version, who serves, rows."""
    looks = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return [(version, "+".join(servers), rows) for version, servers, rows in looks]


def test_readers_see_no_gap_no_mix_and_no_way_back_in_100_switches(
    settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    write(settings, lake_of([Sale(hour=hour) for hour in range(5)]))
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    files, by_spark = [tmp_path / "one", tmp_path / "other"], set()
    with reading(settings, files):
        for number in range(100):
            record_move(settings, ("SHADOW", "LAMBDA")[number % 2])
            serving_table.update_tables(lake)
            if number % 10 in {0, 1}:
                table = spark.read.format("delta").load(serving_uri(settings, PIPELINE.name))
                by_spark |= {((number + 1) % 2, *row) for row in table.groupBy("_served_by").count().collect()}

    assert DeltaTable(serving_uri(settings, PIPELINE.name)).version() == 100
    assert by_spark == {(0, "batch", 5), (1, "streaming", 5)}
    for switches in map(seen_by, files):
        assert len({version for version, _, _ in switches}) > 10, "the reader saw too few switches to prove anything"
        assert [version for version, _, _ in switches] == sorted(version for version, _, _ in switches)
        assert {(version % 2, server, rows) for version, server, rows in switches} == {
            (0, "batch", 5),
            (1, "streaming", 5),
        }


def test_a_way_back_takes_readers_along(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    record_move(settings, "SHADOW")
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)

    stage.move(lake, "rollback", "late burst", SystemClock())

    assert "batch" in {row[-2] for row in read_delta(settings)}
    assert read_delta(settings) == read_view(settings)


def test_a_table_that_cannot_be_published_keeps_no_way_back_shut(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings, lake_of(SALES))
    record_move(settings, "SHADOW")
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    rows_before = read_delta(settings)

    def full(*_: object, **__: object) -> None:
        raise LakeError("Table: expected space, got none.")  # noqa: EM101 -- a test's

    monkeypatch.setattr(serving_table, "publish", full)
    decision = stage.move(lake, "rollback", "late burst", SystemClock())

    assert (decision.target, read_delta(settings)) == (Stage.LAMBDA, rows_before)


def test_a_version_that_a_command_looks_at_is_not_what_is_published(settings: Settings) -> None:
    write(settings, lake_of(SALES))

    publication = serving_table.publish(PipelineLake(settings.model_copy(update={"stream_version": 7}), PIPELINE))

    assert (publication.version, read_delta(settings)) == (0, read_view(settings))


def test_a_stream_that_has_read_less_takes_no_place_unless_a_person_says_so(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    serving_table.publish(PipelineLake(settings, PIPELINE))
    rows_before = read_delta(settings)
    slower = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    write(settings, lake_of(SALES[:3], slower), slower)

    lake = PipelineLake(settings, slower)
    with pytest.raises(LakeError, match=r"stream-1 has read less of the log[\s\S]*--anyway"):
        serving_table.publish(lake)
    assert read_delta(settings) == rows_before

    serving_table.publish(lake, anyway=True)
    assert read_delta(settings) == read_view(settings, slower)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_stream_without_an_epoch_takes_no_place(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """The table names the stream that it shows, or another release or an OPTIMIZE has removed that note."""
    write(settings, lake_of(SALES))
    serving_table.publish(PipelineLake(settings, PIPELINE))
    if not is_known:
        monkeypatch.setattr(serving_table, "_LOOK_BACK", 0)
    rows_before = read_delta(settings)
    slower = replace(PIPELINE, lateness=Lateness(allowed="2 hours"))
    lake = PipelineLake(settings, slower)
    version = versions.open_or_create(lake, SystemClock())
    delta.ensure(version.uri, epoch_log_schema(slower), partition_by=["_kind"])

    with pytest.raises(LakeError, match="has read less of the log"):
        serving_table.publish(lake)

    assert read_delta(settings) == rows_before


def test_nobody_asked_for_a_table(settings: Settings) -> None:
    write(settings, lake_of(SALES))

    serving_table.update_tables(PipelineLake(settings, PIPELINE))

    assert not delta.exists(serving_uri(settings, PIPELINE.name))


def test_vacuum_knows_the_table(settings: Settings) -> None:
    write(settings, lake_of(SALES))
    lake = PipelineLake(settings, PIPELINE)
    serving_table.publish(lake)
    record_move(settings, "SHADOW")
    serving_table.publish(lake)

    deleted = delete_unlisted_files(lake, hours=0, now=datetime.now(UTC), dry_run=False)

    assert deleted["serving"] == 1
    assert read_delta(settings) == read_view(settings)


@pytest.mark.quick
def test_command_says_how_to_read(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "sales.py").write_text("from tests.integration.reconcile.lake_of import PIPELINE as sales\n")
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(folder))
    write(settings, lake_of(SALES))
    capsys.readouterr()

    assert main(["serve-view", "sales"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["serve-view", "sales", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    uri = serving_uri(settings, PIPELINE.name)
    assert "in LAMBDA up to epoch 1, version 0 of the table; months written: 1." in lines[0]
    assert f"delta.`{uri}`" in lines[1]
    assert (answer["uri"], answer["months"]) == (uri, [])


def test_rows_are_not_replaced_by_none_until_a_person_says_so(settings: Settings) -> None:
    lake = lake_of([Sale(hour=1, kind="late"), Sale(hour=2, kind="late")])  # which batch alone counts
    write(settings, lake)
    pipeline_lake = PipelineLake(settings, PIPELINE)
    assert serving_table.publish(pipeline_lake).rows == 2
    replace_batch(settings, replace(lake, batch=()))

    with pytest.raises(LakeError, match=r"in the place of the 2 that version 0 has, got none") as caught:
        serving_table.publish(pipeline_lake)

    assert f"cutover serve-view {PIPELINE.name} --anyway" in str(caught.value)
    assert len(read_delta(settings)) == 2
    assert serving_table.publish(pipeline_lake, anyway=True).rows == 0
    assert read_delta(settings) == []
