"""Lines of the history: their scope, repeated runs, and the trend in a report."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.control import versions
from cutover.lake.journal_rows import ComparisonRow
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.report import sections
from cutover.reconcile.result.finding import Cause, Finding, Seal, TablesRead, Verdict
from cutover.reconcile.result.parts import RunOfTrend
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import history, records
from cutover.reconcile.verdict.history import RANGES_AT_MOST, HistoryEntry
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, at timestamp NOT NULL", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"sales": Count()},
)
CAUSES = {"late": Cause(rows=1), "future": Cause(rows=2)}
TO = {"to": "2026-01-01T00:00:00Z"}


def row(number: int, epoch: int | None = 5, verdict: str = "CONSISTENT", **changes: Any) -> ComparisonRow:
    """Build a row of the history; `said` is its result."""
    values = {
        "run_id": f"r{number}",
        "comparison_key": "k",
        "content_digest": "c",
        "at": NOW + timedelta(minutes=number),
        "sequence": number,
        "epoch": epoch,
        "result_fingerprint": "f",
        "stream_version": 0,
        "verdict": verdict,
        "exit_code": 0,
        "result": json.dumps(changes.pop("said", {})),
    }
    return make_row(ComparisonRow, **values | changes)


def line(number: int = 0, epoch: int | None = 5, verdict: str = "CONSISTENT", **changes: Any) -> RecordedComparison:
    (recorded_line,) = records.fold_lines([row(number, epoch, verdict, **changes)])
    return recorded_line


def entry(recorded_comparison: RecordedComparison, *lines: RecordedComparison, version: int | None = 0) -> HistoryEntry:
    return HistoryEntry(pipeline="sales", turn=9, lines=lines, comparison=recorded_comparison, version=version)


def make_outcome(epoch: int | None = 3, stream: int | None = 0, **changes: Any) -> ComparisonOutcome:
    finding = Finding(
        pipeline="sales",
        verdict=Verdict.CONSISTENT,
        exit_code=0,
        sentence="They agree.",
        causes=CAUSES,
        seal=Seal(epoch=epoch, stream_version=stream),
    )
    return ComparisonOutcome(finding=replace(finding, **changes))


def find_place(settings: Settings, outcome: ComparisonOutcome, run_id: str, fingerprint: str = "f") -> HistoryEntry:
    return history.find_entry(settings, outcome, run_id=run_id, fingerprint=fingerprint, version=0, at=NOW)


def record(settings: Settings, run_id: str, outcome: ComparisonOutcome, fingerprint: str = "f") -> None:
    history.record_comparison(settings, outcome, find_place(settings, outcome, run_id, fingerprint), None)


def test_a_repeated_run_is_one_line_from_its_first_to_its_newest_row() -> None:
    rows = [row(3, run_id="r"), row(4), row(7, run_id="r"), row(8, run_id="r", exit_code=1, report="x.html")]

    other, repeated = records.fold_lines(rows)

    assert (other.run_id, other.times) == ("r4", 1)
    assert repeated == replace(
        line(8, run_id="r", exit_code=1, report="x.html"),
        first_recorded=NOW + timedelta(minutes=3),
        first_sequence=3,
        times=3,
    )


def test_a_line_has_the_fields_of_its_row_and_no_others() -> None:
    bare = line(4, None, stream_version=None)

    assert (bare.epoch, bare.has_cut, bare.covers_all_windows, bare.skipped_ranges, bare.result) == (
        -1,
        False,
        True,
        (),
        {},
    )
    assert (bare.first_sequence, bare.sequence, bare.times, records.count_unexplained(bare)) == (4, 4, 1, 0)
    assert not line(said=TO).covers_all_windows
    assert line(skipped_windows="[[1, 2], [4, 9]]").skipped_ranges == ((1, 2), (4, 9))
    assert records.count_unexplained(line(said={"causes": {"unexplained": {"rows": 7}}})) == 7


@pytest.mark.parametrize(
    ("verdict", "traits", "expected"),
    [
        ("NOT_COMPARABLE", ["nothing"], True),
        ("NOT_COMPARABLE", ["nothing", "in a range"], False),
        ("NOT_COMPARABLE", ["nothing", "folded", "in a range"], True),
        ("NOT_COMPARABLE", ["no_batch"], True),
        ("NOT_COMPARABLE", ["no_batch", "of an epoch"], False),
        ("NOT_COMPARABLE", ["folded", "of an epoch"], True),
        ("CONSISTENT", ["nothing", "in a range"], True),
    ],
)
def test_a_line_counts_unless_a_missing_cut_or_range_was_requested(
    verdict: str, traits: list[str], *, expected: bool
) -> None:
    codes = [{"code": trait} for trait in traits if " " not in trait]
    seal = {"breaches": codes, "epoch": 0 if "of an epoch" in traits else None}

    recorded_line = line(verdict=verdict, said={"seal": seal} | (TO if "in a range" in traits else {}))

    assert recorded_line.counts_in_history is expected
    assert records.of_definition([recorded_line, line(1, result_fingerprint="g")], "f") == (
        (recorded_line,) if expected else ()
    )


@pytest.mark.parametrize(("start", "expected"), [(9, True), (10, False), (19, False), (20, True)])
def test_windows_before_and_after_an_excluded_one_are_compared(start: int, *, expected: bool) -> None:
    assert line(skipped_windows="[[10, 20]]").has_judged(start) is expected
    assert not line(verdict="NOT_COMPARABLE").has_judged(start)


def test_lines_of_the_version_in_force_come_last_and_what_names_no_version_is_one_of_them() -> None:
    lines = [line(4, 1), line(3, 9, stream_version=2), line(2, 3, stream_version=None), line(1, 3)]

    assert [recorded_line.sequence for recorded_line in records.sort_by_position(lines, 0)] == [3, 4, 1, 2]
    assert [recorded_line.sequence for recorded_line in records.sort_by_position(lines[2:3], None)] == [2]
    assert records.compute_line_position(line(2, 3, stream_version=None), None) == (True, -1, 3, 2)
    assert records.find_current_line([*lines, line(9, 99, said=TO)], 0) == lines[2]
    assert records.find_current_line(lines[1:2], 0) is None


def test_newer_lines_are_the_whole_ones_behind_the_place_of_a_run() -> None:
    run_line, other = line(2, 5), [line(1, 6), line(3, 4), line(4, 7), line(5, 8, said=TO), line(6, 5)]

    assert [recorded_line.sequence for recorded_line in entry(run_line, *other).newer] == [6, 1, 4]


@pytest.mark.parametrize(
    ("run_line", "lines", "scope"),
    [
        (line(1, 5), [], None),
        (line(1, 5), [line(2, 4)], None),
        (line(1, 5), [line(2, 6)], "Covers only the cut of epoch 5"),
        (line(1, 0), [line(2, 6)], "Covers only the cut of epoch 0"),
        (line(1, 5, said=TO), [line(2, 6)], "Covers only a range at the cut of epoch 5"),
        (line(1, 5, stream_version=1), [line(2, 6)], "Covers only the cut of epoch 5 of stream-1"),
        (line(1, 5, stream_version=None), [line(2, 6)], "Covers only the cut of epoch 5"),
        (line(1, None, "NOT_COMPARABLE"), [line(2, 6)], "Nothing was compared"),
    ],
)
def test_an_outdated_run_names_its_scope_and_the_current_comparison(
    run_line: RecordedComparison, lines: list[RecordedComparison], scope: str | None
) -> None:
    now = "The current comparison of `sales` is run r2 at epoch 6: CONSISTENT."

    assert entry(run_line, *lines).scope_note == (None if scope is None else f"{scope}. {now}")


def test_a_range_without_a_current_comparison_is_described() -> None:
    sentence = "Covers only a range at the cut of epoch 5. `sales` has no current comparison yet."

    assert entry(line(1, 5, said=TO)).scope_note == sentence


@pytest.mark.parametrize(
    ("not_compared", "expected"),
    [
        ([(5, 9), (1, 3)], ((1, 3), (5, 9))),
        ([(1, 3), (3, 5)], ((1, 5),)),
        ([(1, 9), (2, 4), (8, 9)], ((1, 9),)),
        ([(n, n + 1) for n in range(0, 2 * RANGES_AT_MOST, 2)], None),
        ([(n, n + 1) for n in range(0, 2 * RANGES_AT_MOST + 2, 2)], ((0, 2 * RANGES_AT_MOST + 1),)),
    ],
)
def test_few_uncompared_ranges_are_recorded_separately(
    settings: Settings, not_compared: list[tuple[int, int]], expected: tuple[tuple[int, int], ...] | None
) -> None:
    place = find_place(settings, replace(make_outcome(), skipped_ranges=tuple(not_compared)), "a")

    assert place.comparison.skipped_ranges == (tuple(not_compared) if expected is None else expected)


OUTCOMES = {  # of a second run, and whether it repeats the first one
    "nothing": (make_outcome(), True),
    "tables that were rewritten": (replace(make_outcome(), tables=TablesRead(batch=8, batch_run="b")), True),
    "order": (make_outcome(causes=dict(reversed(CAUSES.items()))), True),
    "finding": (make_outcome(sentence="They differ."), False),
    "end of the range": (make_outcome(to="2026-01-09T00:00:00Z"), False),
    "start of the range": (make_outcome(from_="2026-01-09T00:00:00Z"), False),
    "cut": (make_outcome(epoch=4), False),
    "version": (make_outcome(stream=1), False),
}


@pytest.mark.parametrize(("second", "repeats"), OUTCOMES.values(), ids=OUTCOMES)
def test_equal_findings_have_equal_bytes(second: ComparisonOutcome, *, repeats: bool) -> None:
    assert (second.finding.to_bytes() == make_outcome().finding.to_bytes()) is repeats


def test_an_equal_finding_at_the_same_cut_repeats_its_line(settings: Settings) -> None:
    record(settings, "first", make_outcome())

    places = {}
    for name, (outcome, _) in OUTCOMES.items():
        place = find_place(settings, outcome, "second")
        places[name] = (
            place.comparison.run_id,
            place.comparison.times,
            [line.run_id for line in place.lines],
            place.turn,
        )

    assert places == {
        name: ("first", 2, [], 1) if repeats else ("second", 1, ["first"], 1) for name, (_, repeats) in OUTCOMES.items()
    }


def test_a_run_repeats_the_newest_line_of_its_cut_alone_and_none_of_another_definition(settings: Settings) -> None:
    record(settings, "other", make_outcome(), "g")
    record(settings, "first", make_outcome())
    record(settings, "second", make_outcome(sentence="They differ."))

    place = find_place(settings, make_outcome(), "third")

    assert place.comparison.run_id == "third"
    assert [line.run_id for line in place.lines] == ["first", "second"]


def test_a_row_names_its_cut_or_else_the_requested_version(settings: Settings) -> None:
    record(settings.model_copy(update={"stream_version": 4}), "none", make_outcome(stream=None))
    record(settings, "read", make_outcome(stream=2))

    lines = {recorded_line.run_id: recorded_line for recorded_line in records.read_comparisons(settings, "sales")}
    assert [
        (recorded_line.version, recorded_line.has_cut, recorded_line.epoch)
        for recorded_line in (lines["none"], lines["read"])
    ] == [
        (4, False, -1),
        (2, True, 3),
    ]


def test_history_is_sorted_by_currency_cut_and_definition(
    settings: Settings,
) -> None:
    fingerprint = result_fingerprint(SALES)
    lake = PipelineLake(settings, SALES)
    versions.open_or_create(lake, SystemClock())
    record(settings, "former", make_outcome(epoch=9, stream=None), "g")
    for run, epoch, to in (("a", 2, None), ("c", 4, None), ("b", 3, None), ("ranged", 8, NOW.isoformat())):
        record(settings, run, make_outcome(epoch=epoch, to=to), fingerprint)

    lines = history.list_current_first(lake)

    assert [line.run_id for line in lines] == ["c", "ranged", "b", "a", "former"]


def test_a_report_shows_the_newest_whole_comparisons_with_their_numbers() -> None:
    result_fields = {
        "policy": {"within": False, "late_share": 0.25},
        "windows": {"compared": 8, "different": 3},
        "rows": {"missing": 1, "extra": 2, "changed": 4, "compared": 99},
        "causes": {"unexplained": {"rows": 5}},
    }
    lines = [line(n, n) for n in range(sections.RUNS_AT_MOST)]

    runs = sections.trend(entry(line(900, 900, "DIVERGED", said=result_fields), *lines, line(99, 99, said=TO)))

    assert [run.epoch for run in runs] == [*range(1, sections.RUNS_AT_MOST), 900]
    assert runs[-1] == RunOfTrend(
        run_id="r900",
        at="2026-01-02T15:00:00Z",
        epoch=900,
        verdict="DIVERGED",
        within=False,
        windows=8,
        different=3,
        rows=1 + 2 + 4,
        unexplained=5,
        late_share=0.25,
    )


def test_a_comparison_that_compared_nothing_has_no_numbers_in_what_a_report_shows() -> None:
    (run,) = sections.trend(entry(line(0, None, "NOT_COMPARABLE", said={"rows": None})))

    assert run == RunOfTrend(
        run_id="r0",
        at="2026-01-02T00:00:00Z",
        epoch=None,
        verdict="NOT_COMPARABLE",
        within=True,
        windows=0,
        different=0,
        rows=0,
        unexplained=0,
        late_share=0.0,
    )
