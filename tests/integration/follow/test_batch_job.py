"""A streaming job and a batch job of a team under one definition: each is judged at its own position."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from cutover.batch.recompute import recompute_windows
from cutover.definition import BatchJob, Delta, Lateness, Parquet, Postgres
from cutover.definition.compile.fingerprint import job_fingerprints
from cutover.lake.control.versions import find_current_version
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate.evidence import list_runs
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verdict import records
from cutover.reconcile.watch.findings import list_comparison_problems
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, send
from tests.support.batch_jobs import count_hours, encode_cut, write_delta, write_parquet, write_postgres
from tests.support.followed_jobs import EVENTS, JobTopic, compare
from tests.support.servers.postgres import running_server

AT_RANDOM = {0: 22, 1: 25}
"""Offsets in the middle of windows, of a late record's too."""

Write = Callable[[DataFrame, str], None]


def with_batch(lake: PipelineLake, job: BatchJob) -> PipelineLake:
    return PipelineLake(lake.settings, replace(lake.pipeline, batch=job))


def compute(
    rig: JobTopic, ends: dict[int, int], change: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> DataFrame:
    return count_hours(rig.spark, rig.settings, rig.topic, encode_cut(rig.topic, ends), change)


def reconcile_again(lake: PipelineLake) -> Finding:
    recompute_windows(lake)
    return run_reconciliation(lake).finding


def list_levels(finding: Finding) -> list[tuple[str, str, int]]:
    assert finding.jobs, finding.sentence
    return [(job.side, job.level, job.different) for job in finding.jobs]


def count_evidence(lake: PipelineLake) -> int:
    version = find_current_version(lake)
    assert version is not None
    comparisons = records.read_comparisons(lake.settings, lake.name)
    runs = list_runs(comparisons, version, jobs=job_fingerprints(lake.pipeline))
    return sum(run.is_within_policy for run in runs)


def test_both_jobs_are_reproduced_and_a_change_is_attributed_to_the_job_that_has_it(rig: JobTopic) -> None:
    table, cut = rig.place / "nightly", encode_cut(rig.topic, AT_RANDOM)
    lake = with_batch(rig.run("merge"), BatchJob(table=Delta(str(table))))
    write_delta(compute(rig, AT_RANDOM), table, cut)

    finding = compare(lake)

    assert list_levels(finding) == [("streaming", "reproduced", 0), ("batch", "reproduced", 0)]
    assert finding.verdict is Verdict.EXPLAINED
    batch = finding.jobs[1]
    assert (batch.version, batch.rows, batch.not_judged) == (0, 14, 0)  # hours 0 to 4 of two keys, and 4 earlier
    assert batch.position == f"{rig.topic} 0:22 1:25"
    tables = finding.users_tables
    assert tables is not None
    assert set(tables.causes) == {"behind"}  # neither table has the late records: one has dropped them, one not read
    assert (tables.rows, tables.different) == (14, max(tables.causes.values()))

    write_delta(compute(rig, AT_RANDOM, lambda rows: rows.where("id <> 7")), table, cut)
    finding = reconcile_again(lake)

    assert (finding.verdict, finding.exit_code) == (Verdict.DIVERGED, 1)
    assert list_levels(finding) == [("streaming", "reproduced", 0), ("batch", "sealed by offsets", 1)]
    assert finding.users_tables is not None
    assert finding.users_tables.causes["batch job"] == 1
    sentence = "The batch job does not do what the definition says in 2 of 42 cells: 1 row of its table differs."
    assert finding.sentence == sentence
    cells = [(cell.key, cell.measure, cell.job, cell.expected) for cell in finding.jobs[1].cells]
    assert [cell[:2] for cell in cells] == [({"k": "b"}, "n"), ({"k": "b"}, "ids")]
    assert (cells[0][3], cells[1][3]) == (cells[0][2] + 1, cells[1][2] + 7)  # type: ignore[operator]
    alerts = [problem.text.partition(", ")[0] for problem in list_comparison_problems(lake)]
    assert alerts == ["1 of 14 rows of the batch job's table are not what the definition says"]


def test_a_change_of_the_streaming_job_is_attributed_to_that_one(rig: JobTopic) -> None:
    table, cut = rig.place / "nightly", encode_cut(rig.topic, AT_RANDOM)
    followed = rig.run("append", lambda rows: rows.where("id <> 7"))
    lake = with_batch(followed, BatchJob(table=Delta(str(table))))
    write_delta(compute(rig, AT_RANDOM), table, cut)

    finding = compare(lake)

    assert list_levels(finding) == [("streaming", "sealed by offsets", 1), ("batch", "reproduced", 0)]
    assert finding.sentence.startswith("The streaming job does not do what the definition says in 2 of ")
    assert "batch job" not in finding.sentence
    assert count_evidence(lake) == 0


def test_a_job_with_rules_of_its_own_is_judged_by_them_and_they_explain_what_differs(rig: JobTopic) -> None:
    table = rig.place / "nightly"
    send(rig.settings, rig.topic, REPEATED)
    rules = BatchJob(table=Delta(str(table)), where="id <> 7", once_by=("id",))
    own = replace(
        rig.windows("append"),
        stream=None,
        lateness=Lateness(out_of_orderness="10 minutes", max_ahead="36500 days"),
        batch=rules,
    )
    lake = PipelineLake(rig.settings, own)
    assert run_driver(lake, until="drain") == 0
    logs = [[event for event in [*EVENTS, *REPEATED] if event.partition == partition] for partition in (0, 1)]

    def write(ends: tuple[int, int], *, keeps: int = 7) -> None:
        read = [event for log, end in zip(logs, ends, strict=True) for event in log[:end] if event.id != keeps]
        note = CommitProperties(custom_metadata={"userMetadata": encode_cut(rig.topic, dict(enumerate(ends)))})
        write_deltalake(table, count_in_python(read, once=True), mode="overwrite", commit_properties=note)

    for ends in ((10, 12), (22, 25), (len(logs[0]), len(logs[1])), (30, 12)):  # the second one keeps earlier rows
        write(ends)
        finding = reconcile_again(lake)
        assert list_levels(finding) == [("batch", "reproduced", 0)], ends
        assert finding.jobs[0].rules == "where id <> 7, once by id"
    write((len(logs[0]), len(logs[1])))
    finding = reconcile_again(lake)
    assert finding.jobs[0].by_rules == len({(e.micros // 3_600_000_000, e.key) for e in (*REPEATED, EVENTS[7])})
    assert "By its own rules (where id <> 7, once by id), 3 rows of the batch job differ" in finding.sentence
    assert finding.verdict in {Verdict.EXPLAINED, Verdict.CONSISTENT}
    assert finding.users_tables is not None
    assert finding.users_tables.causes["rules"] == 3
    assert finding.users_tables.causes.keys() <= {"rules", "late"}
    assert count_evidence(lake) > 0

    write((len(logs[0]), len(logs[1])), keeps=8)
    assert reconcile_again(lake).verdict is Verdict.DIVERGED
    without = PipelineLake(rig.settings, replace(own, batch=BatchJob(table=Delta(str(table)))))
    assert count_evidence(without) == 0
    write((len(logs[0]), len(logs[1])))
    assert reconcile_again(without).verdict is Verdict.DIVERGED


def test_a_table_in_postgres_is_read_with_its_position(rig: JobTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    job = BatchJob(
        table=Postgres(table="public.hourly", server="HOURLY_DB"), columns={"window_start": "hour", "ids": "total"}
    )
    lake = with_batch(rig.run("complete"), job)
    with running_server() as address:
        monkeypatch.setenv("HOURLY_DB", address)
        write_postgres(compute(rig, AT_RANDOM), address, encode_cut(rig.topic, AT_RANDOM))
        finding = compare(lake)
        assert list_levels(finding) == [("streaming", "reproduced", 0), ("batch", "reproduced", 0)]
        assert finding.verdict is Verdict.CONSISTENT

        with psycopg.connect(address) as connection:
            connection.execute("UPDATE hourly SET total = total + 0.5 WHERE hour = (SELECT min(hour) FROM hourly)")
        batch = reconcile_again(lake).jobs[1]
        assert (batch.level, batch.different) == ("bounded", 0)
        assert batch.not_judged == batch.written_later > 0

        with psycopg.connect(address) as connection:
            connection.execute("UPDATE hourly SET total = 'NaN'")
            connection.execute("UPDATE cutover_position SET position = position")
        finding = reconcile_again(lake)
        assert finding.verdict is Verdict.NOT_COMPARABLE
        assert "Table of the batch job, `env:HOURLY_DB#public.hourly`" in finding.sentence

        with psycopg.connect(address) as connection:
            connection.execute("DELETE FROM cutover_position")
        finding = reconcile_again(lake)
        assert "expected a position that the job has recorded" in finding.sentence
    monkeypatch.setenv("HOURLY_DB", "postgresql://me:secret@127.0.0.1:1/db")
    finding = reconcile_again(lake)
    assert (finding.verdict, finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert "secret" not in json.dumps(finding.to_json())


@pytest.mark.quick
def test_a_batch_job_is_judged_beside_our_own_stream_too(rig: JobTopic) -> None:
    table = rig.place / "nightly"
    own = replace(
        rig.windows("append"),
        stream=None,
        lateness=Lateness(out_of_orderness="10 minutes", max_ahead="36500 days"),
        batch=BatchJob(table=Parquet(str(table)), columns={"window_start": "window.start"}),
    )
    lake = PipelineLake(rig.settings, own)
    write_parquet(compute(rig, AT_RANDOM), table, encode_cut(rig.topic, AT_RANDOM))

    finding = compare(lake)

    assert list_levels(finding) == [("batch", "reproduced", 0)]
    assert finding.verdict in {Verdict.EXPLAINED, Verdict.CONSISTENT}
    first = count_evidence(lake)
    assert first == int(finding.exit_code == 0)
    moved = replace(own, batch=BatchJob(table=Parquet(f"{table}/"), columns={"window_start": "window.start"}))
    assert count_evidence(PipelineLake(rig.settings, moved)) == 0  # agreement with another table


def test_a_job_that_has_read_beyond_the_cut_is_compared_once_batch_has_read_it_too(rig: JobTopic) -> None:
    table = rig.place / "nightly"
    lake = with_batch(rig.run("append"), BatchJob(table=Delta(str(table))))
    send(rig.settings, rig.topic, EVENTS[:7])
    ends = {0: 34, 1: 33}  # the streaming job has read 30 of each
    write_delta(compute(rig, ends), table, encode_cut(rig.topic, ends))

    finding = compare(lake)
    assert list_levels(finding) == [("streaming", "reproduced", 0), ("batch", "reproduced", 0)]
    assert finding.users_tables is not None
    assert finding.users_tables.different == 2  # the first hour of both keys: late records, and those sent since
    assert finding.users_tables.causes == {"late": 2, "behind": 2}

    ends = {0: 33, 1: 33}
    write_delta(compute(rig, ends), table, encode_cut(rig.topic, ends))
    finding = run_reconciliation(lake).finding  # batch has not run since
    assert finding.verdict is Verdict.NOT_COMPARABLE
    assert "expected a position up to the cut, at offset 30 of partition 0" in finding.sentence


def test_rows_between_two_bounds_are_counted_as_not_judged_and_are_no_evidence(rig: JobTopic) -> None:
    table = rig.place / "nightly"
    lake = with_batch(rig.run("complete"), BatchJob(table=Delta(str(table))))
    bounds = {
        "format": "cutover.position/1",
        "topics": {rig.topic: {"0": 20, "1": 25}},
        "upto": {rig.topic: {"0": 24, "1": 25}},
    }
    write_delta(compute(rig, AT_RANDOM), table, json.dumps(bounds))

    finding = compare(lake)

    assert finding.verdict is Verdict.CONSISTENT
    job = finding.jobs[1]
    assert (job.level, job.different) == ("bounded", 0)
    assert job.not_judged > 0
    assert job.rows > 0
    assert count_evidence(lake) == 0


def test_a_table_that_another_writer_has_changed_is_not_comparable(rig: JobTopic) -> None:
    table, cut = rig.place / "nightly", encode_cut(rig.topic, AT_RANDOM)
    lake = with_batch(rig.run("complete"), BatchJob(table=Delta(str(table))))
    write_delta(compute(rig, AT_RANDOM), table, cut)
    assert list_levels(compare(lake))[1] == ("batch", "reproduced", 0)
    DeltaTable(str(table)).optimize.compact()
    assert list_levels(reconcile_again(lake))[1] == ("batch", "reproduced", 0)

    DeltaTable(str(table)).delete("k = 'a'")
    finding = reconcile_again(lake)

    assert finding.verdict is Verdict.NOT_COMPARABLE
    assert "(DELETE) changed rows" in finding.sentence
    write_delta(compute(rig, AT_RANDOM), table, encode_cut("another-topic", AT_RANDOM))
    assert f"expected a position of topic `{rig.topic}`, got another-topic" in reconcile_again(lake).sentence


REPEATED = [replace(EVENTS[number], partition=1 - EVENTS[number].partition) for number in (3, 10, 41)]
TYPES: dict[str, pa.DataType] = {
    "window_start": pa.timestamp("us", tz="UTC"),
    "k": pa.string(),
    "n": pa.int64(),
    "ids": pa.int64(),
    "newest": pa.int64(),
}
SCHEMA = pa.schema(list(TYPES.items()))


def count_in_python(events: Sequence[Event], *, once: bool) -> pa.Table:
    """Compute the rows of a job without an engine; with `once` a record counts once."""
    counted = {event.id: event for event in events}.values() if once else events
    ids = defaultdict[tuple[int, str | None], list[int]](list)
    for event in counted:
        ids[event.micros - event.micros % 3_600_000_000, event.key].append(event.id)
    rows = [(start, k, len(group), sum(group), max(group)) for (start, k), group in ids.items()]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


@pytest.mark.parametrize("record_id", [None, "id"])
def test_the_rows_at_any_position_are_those_of_its_records(rig: JobTopic, record_id: str | None) -> None:
    table, sent = rig.place / "nightly", [*EVENTS, *REPEATED]
    send(rig.settings, rig.topic, REPEATED)
    logs = [[event for event in sent if event.partition == partition] for partition in (0, 1)]
    definition = rig.windows("append")
    own = replace(
        definition,
        source=replace(definition.source, record_id=record_id),
        stream=None,
        lateness=Lateness(out_of_orderness="10 minutes", max_ahead="36500 days"),
        batch=BatchJob(table=Delta(str(table))),
    )
    lake = PipelineLake(rig.settings, own)
    assert run_driver(lake, until="drain") == 0

    for ends in ((0, 0), (7, 29), (30, 12), (len(logs[0]), len(logs[1]))):
        records_before = [event for log, end in zip(logs, ends, strict=True) for event in log[:end]]
        rows = count_in_python(records_before, once=record_id is not None)
        note = CommitProperties(custom_metadata={"userMetadata": encode_cut(rig.topic, dict(enumerate(ends)))})
        write_deltalake(table, rows, mode="overwrite", commit_properties=note)
        finding = reconcile_again(lake)
        assert list_levels(finding) == [("batch", "reproduced", 0)]
