"""Versions of a streaming side: which one a definition runs, and what number the next one gets."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import restore, versions
from cutover.lake.journal import make_row_schema
from cutover.lake.journal_rows import VersionEvent
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake, control_uri, sequence_marks_uri
from cutover.settings import Settings
from tests.support.suite.standing_clock import StandingClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
SECOND = replace(FIRST, lateness=Lateness(allowed="1 hour"))
THIRD = replace(FIRST, lateness=Lateness(allowed="2 hours"))
OTHER_TRUTH = replace(FIRST, measures={"n": Count(), "m": Count()})


def open_version(lake: PipelineLake, *, minutes: int = 0) -> int:
    return versions.open_or_create(lake, StandingClock(NOW + timedelta(minutes=minutes))).number


def test_there_is_no_version_before_the_first_start(settings: Settings) -> None:
    assert versions.find_current_version(PipelineLake(settings, FIRST)) is None


def test_an_existing_version_is_reopened(settings: Settings) -> None:
    lake = PipelineLake(settings, FIRST)
    assert [open_version(lake), open_version(lake, minutes=1)] == [0, 0]


def test_another_lateness_is_another_version_and_the_old_one_stays(settings: Settings) -> None:
    numbers = [open_version(PipelineLake(settings, p), minutes=m) for m, p in enumerate((FIRST, SECOND, FIRST, SECOND))]

    assert numbers == [0, 1, 0, 1]
    assert [
        v.uri.endswith(f"stream-{v.number}/stream")
        for v in versions.list_stream_versions(PipelineLake(settings, FIRST))
    ] == [
        True,
        True,
    ]


def test_another_result_fingerprint_starts_a_new_version(settings: Settings) -> None:
    open_version(PipelineLake(settings, FIRST))

    assert open_version(PipelineLake(settings, OTHER_TRUTH)) == 0
    assert (
        len({versions.open_or_create(PipelineLake(settings, p), StandingClock(NOW)).uri for p in (FIRST, OTHER_TRUTH)})
        == 2
    )


def test_a_clock_that_goes_back_reuses_no_number(settings: Settings) -> None:
    assert [open_version(PipelineLake(settings, p), minutes=-m) for m, p in enumerate((FIRST, SECOND, THIRD))] == [
        0,
        1,
        2,
    ]


def test_versions_registered_at_the_same_time_get_different_numbers(settings: Settings) -> None:
    together = threading.Barrier(3)

    def register(pipeline: Pipeline) -> int:
        together.wait()
        return open_version(PipelineLake(settings, pipeline))

    with ThreadPoolExecutor(3) as pool:
        numbers = list(pool.map(register, (FIRST, SECOND, THIRD)))

    assert sorted(numbers) == [0, 1, 2]
    assert [open_version(PipelineLake(settings, p)) for p in (FIRST, SECOND, THIRD)] == numbers


def test_version_based_on_an_outdated_sequence_is_rejected(settings: Settings) -> None:
    lake = PipelineLake(settings, FIRST)
    sequence = versions.read_next_version_sequence(lake)
    open_version(PipelineLake(settings, SECOND))

    with pytest.raises(LakeError, match="another process appended row"):
        versions.register(lake, StandingClock(NOW), expected_sequence=sequence)
    assert [version.number for version in versions.list_stream_versions(lake)] == [0]


def test_nothing_is_opened_while_removed_rows_are_missing(settings: Settings) -> None:
    for pipeline in (FIRST, SECOND):
        open_version(PipelineLake(settings, pipeline))
    delta.open_table(control_uri(settings, "versions")).delete("stream_version = 1")

    lake = PipelineLake(settings, SECOND)
    with pytest.raises(LakeError, match="expected every committed row, 1 missing") as refused:
        open_version(lake)
    list(restore.restore(settings))

    assert (refused.value.runbook, open_version(lake)) == ("ForeignWrite", 1)


@pytest.mark.parametrize(
    ("with_notes", "message"),
    [(True, "`versions` of `p`: expected row 0, "), (False, "Versions of `p`: expected the one of table")],
)
def test_a_lake_without_its_control_tables_is_not_new(settings: Settings, message: str, *, with_notes: bool) -> None:
    lake = PipelineLake(settings, FIRST)
    open_version(lake)
    delta.ensure(lake.stream_uri(0), make_row_schema(VersionEvent))
    shutil.rmtree(Path(control_uri(settings, "versions")).parent)
    if not with_notes:
        shutil.rmtree(sequence_marks_uri(settings, "p", "versions"))

    with pytest.raises(LakeError, match=message) as refused:
        open_version(lake)

    assert refused.value.runbook == "ForeignWrite"


def register_parallel(settings: Settings, pipeline: Pipeline = FIRST) -> int:
    lake = PipelineLake(settings, pipeline)
    sequence = versions.read_next_version_sequence(lake)
    return versions.register(lake, StandingClock(NOW), expected_sequence=sequence, parallel=True).number


def find_current_number(settings: Settings, pipeline: Pipeline = FIRST) -> int | None:
    version = versions.find_current_version(PipelineLake(settings, pipeline))
    return None if version is None else version.number


def test_parallel_version_serves_only_on_request_and_can_be_reverted(settings: Settings) -> None:
    lake = PipelineLake(settings, FIRST)
    open_version(lake)
    parallel_version = register_parallel(settings)
    assert (parallel_version, find_current_number(settings), open_version(lake)) == (1, 0, 0)

    versions.promote_version(lake, parallel_version, why="replayed", clock=StandingClock(NOW - timedelta(days=1)))
    assert (find_current_number(settings), open_version(lake)) == (1, 1)
    assert [version.parallel for version in versions.list_stream_versions(lake)] == [False, False]

    versions.promote_version(lake, 0, why="worse", clock=StandingClock(NOW))
    assert find_current_number(settings) == 0
    assert [row.why for row in versions.read_version_events(settings, "p")] == [None, None, "replayed", "worse"]


def test_settings_that_name_a_version_use_only_that_version(settings: Settings) -> None:
    open_version(PipelineLake(settings, FIRST))
    parallel_version = register_parallel(settings)

    assert find_current_number(versions.select_stream_version(settings, parallel_version)) == 1
    assert find_current_number(versions.select_stream_version(settings, None)) == 0
    with pytest.raises(DefinitionError, match=r"expected one under this definition and lateness \(0, 1\), got 2"):
        find_current_number(versions.select_stream_version(settings, 2))


@pytest.mark.parametrize(
    ("number", "reason", "message"),
    [(0, "again", "stream-0 does"), (7, "new", r"\(0, 1\), got 7"), (1, " ", "expected a reason")],
)
def test_invalid_version_to_serve_is_rejected(settings: Settings, number: int, reason: str, message: str) -> None:
    lake = PipelineLake(settings, FIRST)
    open_version(lake)
    register_parallel(settings)

    with pytest.raises(DefinitionError, match=message):
        versions.promote_version(lake, number, why=reason, clock=StandingClock(NOW))
    assert find_current_number(settings) == 0


def test_version_of_another_lateness_cannot_serve(settings: Settings) -> None:
    lake = PipelineLake(settings, FIRST)
    open_version(lake)
    other_version = register_parallel(settings, SECOND)

    with pytest.raises(DefinitionError, match=r"\(0\), got 1"):
        versions.promote_version(lake, other_version, why="new", clock=StandingClock(NOW))
    assert find_current_number(settings, SECOND) is None
