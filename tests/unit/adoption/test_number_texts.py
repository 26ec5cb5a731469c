"""Numbers in text, some of which are none: the types that fields get, stated types, and filters that are the same."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from cutover.adoption.adopt import Adoption, check_stated
from cutover.adoption.completion import choose_match, choose_types, complete_draft, drop_equivalent, list_variants
from cutover.adoption.draft import (
    JobDraft,
    KeyPart,
    MeasureChoice,
    Question,
    Seen,
    Stated,
    combine_filters,
    list_filters,
)
from cutover.adoption.evidence import Aggregate, QueryShape, ReadBatch, ReadPlan, open_job_table
from cutover.adoption.hypotheses import find_matches, verify
from cutover.adoption.proposal import begin_draft
from cutover.adoption.sample import RecordSample, RecordSampler
from cutover.adoption.trial import JobReading, evaluate_draft
from cutover.cli.adopt import adopt_jobs, describe_test, render_adoption
from cutover.definition import Fixed
from cutover.errors import DefinitionError
from cutover.log.kafka import RawRecord
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RIDES: Sequence[Mapping[str, Any]] = [
    {
        "ride": f"r{number}",
        "pickup": {"city": "abc"[number % 3]},
        "fare": "n/a" if number % 97 == 50 else f"{number * 37 % 100 + number / 100:.2f}",
        "distance_km": f"{number * 7 % 31}.{number * 13 % 1000:03}",
        "test": number % 11 == 0,
        "at": (NOON + timedelta(seconds=number * 20)).isoformat(),
    }
    for number in range(600)
]
SHAPE = QueryShape(
    topic="rides",
    is_grouped=True,
    keys=(),
    aggregates=tuple(Aggregate(measures=(kind,), buffers=()) for kind in ("Count", "Sum", "Max")),
    deduplicated_by=None,
    deduplicated_time=None,
    delay=None,
    drops_late=False,
)
COLUMNS = {"rides": "BIGINT", "revenue": "DECIMAL(20,2)", "longest_km": "DOUBLE"}


def never_ask(question: Question) -> str:
    pytest.fail(f"{question.part}: {question.choices}")


def sample_rides(rides: Sequence[Mapping[str, Any]] = RIDES) -> RecordSample:
    sampler = RecordSampler()
    for offset, ride in enumerate(rides):
        sampler.add(RawRecord(partition=0, offset=offset, log_time_micros=0, value=json.dumps(ride).encode()))
    return sampler.infer()


def draft_rides(sample: RecordSample, stated: Stated | None = None) -> JobDraft:
    draft = begin_draft("rides", "/c", SHAPE, sample, stated or Stated())
    return replace(
        draft,
        table="/t",
        window=Fixed(minutes=10),
        start_column="start",
        key=(KeyPart(field="city", column="city"),),
        value_columns=COLUMNS,
        output_mode="update",
        seen={name: Seen(text="log") for name in ("start", "key", "window", "where", "output_mode", *draft.seen)},
    )


def read_rides(passes: Callable[[Mapping[str, Any]], bool], rides: Sequence[Mapping[str, Any]] = RIDES) -> JobReading:
    """Return the log with the table of a job: count, sum(try_cast(fare ...)), max(cast(distance_km AS double))."""
    groups = defaultdict[tuple[datetime, str], list[Mapping[str, Any]]](list)
    for ride in filter(passes, rides):
        at = datetime.fromisoformat(ride["at"])
        groups[at.replace(minute=at.minute // 10 * 10, second=0, tzinfo=None), ride["pickup"]["city"]].append(ride)
    rows = [
        {
            "start": start,
            "city": city,
            "rides": len(group),
            "revenue": sum((Decimal(ride["fare"]) for ride in group if ride["fare"] != "n/a"), Decimal(0)),
            "longest_km": max(float(ride["distance_km"]) for ride in group),
        }
        for (start, city), group in groups.items()
    ]
    records = [
        RawRecord(partition=0, offset=offset, log_time_micros=0, value=json.dumps(ride).encode())
        for offset, ride in enumerate(rides)
    ]
    batch = ReadBatch(number=0, ends={0: len(records)}, judged_by=0, watermark=0)
    plan = ReadPlan(starts={0: 0}, batches=(batch,), whole_from=None, closed_until=0, records=len(records))
    return JobReading(plan=plan, records=[records], rows=rows)


def search(draft: JobDraft, reading: JobReading, stated: Stated | None = None) -> JobDraft:
    known = stated or Stated()
    matches, _ = find_matches(
        [evaluate_draft(draft, (), reading)],
        lambda each: [
            evaluate_draft(replace(each, types=variant.types), variant.choices, reading)
            for variant in list_variants(each, SHAPE)
        ],
        reading,
        is_filtered=known.where is not None,
    )
    match = choose_match(drop_equivalent(matches), known, never_ask)
    return complete_draft(match, SHAPE, known, never_ask)


def test_numbers_in_text_of_which_some_are_none_are_summed_and_each_field_has_its_own_type() -> None:
    sample = sample_rides()
    assert sample.text_numbers == {"fare": 6, "distance_km": 0}
    reading = read_rides(lambda ride: not ride["test"])
    draft = search(draft_rides(sample), reading)

    assert draft.where == "test = false"
    assert {column: choice.text for column, choice in draft.measures.items()} == {
        "rides": "Count()",
        "revenue": 'Sum("fare")',
        "longest_km": 'Max("TRY_CAST(distance_km AS double)")',
    }
    assert (draft.types["fare"], draft.types["distance_km"]) == ("decimal(10,2)", "string")
    check = verify(draft, reading)
    assert check.is_exact
    adoption = Adoption(draft=draft, sampled=600, tried=1, verification=check, obstacle=None)
    assert "# fare: 6 sampled values are no numbers, and count as null." in render_adoption(adoption)


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (("decimal(10,2)", "decimal(12,3)"), "decimal(12,3)"),
        (("decimal(12,3)", "decimal(10,2)"), "decimal(12,3)"),
        (("decimal(18,2)", "decimal(10,4)"), "decimal(20,4)"),
        (("bigint", "decimal(10,2)"), "decimal(21,2)"),
        (("decimal(10,2)", "double"), "decimal(10,2)"),  # as many cells: the first one
    ],
)
def test_a_field_that_two_measures_read_with_different_types_gets_one_that_holds_both(
    kinds: Sequence[str], chosen: str
) -> None:
    draft = draft_rides(sample_rides())
    measures = {name: MeasureChoice("Max", "fare", kind) for name, kind in zip(("a", "b"), kinds, strict=True)}

    assert choose_types(replace(draft, measures=measures), {"a": 9, "b": 9}).types["fare"] == chosen


def test_a_column_that_nothing_reproduces_decides_no_type() -> None:
    reading = read_rides(lambda _: True)
    rows = [{**row, "revenue": Decimal("0.37")} for row in reading.rows]
    rows[0]["revenue"] = sum((Decimal(ride["distance_km"]) for ride in RIDES[:30:3]), Decimal(0)).quantize(
        Decimal("0.01")
    )
    draft = search(draft_rides(sample_rides()), replace(reading, rows=rows))

    assert draft.measures["longest_km"].text == 'Max("TRY_CAST(distance_km AS double)")'
    assert draft.types["distance_km"] == "string"
    assert not any(cell.column == "longest_km" for cell in verify(draft, replace(reading, rows=rows)).differences)


def test_numbers_and_texts_in_one_field_are_numbers_and_few_values_remain_texts() -> None:
    rides = [
        {
            **ride,
            "fare": "n/a" if ride["fare"] == "n/a" else float(ride["fare"]),
            "riders": "?" if n == 9 else str(n % 4),
        }
        for n, ride in enumerate(RIDES)
    ]
    sample = sample_rides(rides)
    types = {column.name: column.type for column in sample.guess.columns}
    assert types["fare"].startswith("decimal(")
    assert types["riders"] == "string"
    assert sample.text_numbers["riders"] == 1

    half = [{**ride, "fare": "n/a" if n % 2 else ride["fare"]} for n, ride in enumerate(RIDES)]
    assert "fare" not in sample_rides(half).text_numbers


def test_a_filter_on_the_texts_of_a_field_keeps_it_a_text() -> None:
    rides = [{**ride, "fare": str(n % 4) if n % 50 else "n/a"} for n, ride in enumerate(RIDES)]
    reading = read_rides(lambda ride: ride["fare"] == "2", rides)
    draft = search(draft_rides(sample_rides(rides)), reading)

    assert draft.where == "fare = '2'"
    assert draft.types["fare"] == "string"
    assert verify(draft, reading).is_exact


def test_a_stated_type_is_kept_by_all_variants() -> None:
    stated = Stated(types={"fare": "decimal(12,4)", "distance_km": "DECIMAL(9,3)"})
    reading = read_rides(lambda ride: not ride["test"])
    draft = search(draft_rides(sample_rides().state_types(stated.types), stated), reading)

    assert (draft.types["fare"], draft.types["distance_km"]) == ("decimal(12,4)", "decimal(9,3)")
    assert {variant.types["fare"] for variant in list_variants(draft, SHAPE)} == {"decimal(12,4)"}
    assert verify(draft, reading).is_exact


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"fares": "double"}, r"--type fares: expected a field of the records, they have ride, city.*\nHint: `--type"),
        ({"fare": "money"}, r"--type fare: Type: expected one of boolean.*got `money`.*\nHint: such as `--type fare="),
    ],
)
def test_a_wrong_type_is_named(types: Mapping[str, str], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        sample_rides().state_types(types)
    with pytest.raises(DefinitionError, match="--type: expected FIELD=TYPE"):
        adopt_jobs("rides", "/c", "/t", types=["fare"])


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (Stated(where="try_cast(ride AS decimal(10,2)) > 0"), '--where: .*expected a cast.*\nHint: `--type "ride=dec'),
        (Stated(measures={"revenue": "Sum(try_cast(ride as decimal(10, 2)))"}), "--measure revenue: .*\nHint: `--type"),
        (Stated(where="fares > 0"), "--where: unknown column `fares`"),
        (Stated(where="fare"), "--where: expected a condition, got string"),
    ],
)
def test_a_stated_expression_that_no_definition_can_have_is_rejected_before_records_are_read(
    stated: Stated, message: str
) -> None:
    with pytest.raises(DefinitionError, match=re.compile(message, re.DOTALL)):
        check_stated(draft_rides(sample_rides(), stated), stated)


def test_a_stated_filter_may_compare_a_field_with_texts_that_are_no_numbers() -> None:
    stated = Stated(where="fare <> 'n/a' AND NOT test")
    draft = check_stated(draft_rides(sample_rides(), stated), stated)
    assert draft.types["fare"] == "string"
    reading = read_rides(lambda ride: ride["fare"] != "n/a" and not ride["test"])
    completed = search(draft, reading, stated)
    assert completed.measures["revenue"].text == 'Sum("TRY_CAST(fare AS double)")'
    assert verify(completed, reading).equal_cells


def test_filters_that_are_the_same_are_told_from_those_that_only_pass_the_same_records() -> None:
    draft = replace(draft_rides(sample_rides()), types={"n": "bigint", "flag": "boolean", "at": "timestamp"})
    records = [{"n": number % 5, "flag": [True, False, None][number % 3], "at": number} for number in range(30)]
    filters = {each.sql: each for each in list_filters(draft, records)}

    assert {sql for sql in filters if str(sql).startswith("flag")} == {
        "flag = true",
        "flag = false",
        "flag IS NOT NULL",
    }
    flag, known, zero, other = (filters[sql] for sql in ("flag = false", "flag IS NOT NULL", "n = 0", "n <> 1"))
    assert combine_filters(flag, known).is_equivalent(flag)
    assert combine_filters(flag, zero).is_equivalent(combine_filters(zero, flag))
    assert combine_filters(zero, other).is_equivalent(zero)
    assert not known.is_equivalent(flag)
    assert not other.is_equivalent(zero)


def test_conditions_that_no_record_passes_together_are_known() -> None:
    draft = replace(draft_rides(sample_rides()), types={"fragile": "boolean", "kind": "string", "at": "timestamp"})
    records = [{"fragile": flag, "kind": kind, "at": None} for flag in (True, False) for kind in "abcd"]
    filters = {each.sql: each for each in list_filters(draft, records)}

    def may_pass(first: str, second: str) -> bool:
        return combine_filters(filters[first], filters[second]).may_pass

    assert not may_pass("fragile = true", "fragile = false")
    assert not may_pass("kind = 'a'", "kind <> 'a'")
    assert not may_pass("kind = 'a'", "kind IN ('b', 'c')")
    assert may_pass("kind IN ('a', 'b')", "kind IN ('b', 'c')")
    assert may_pass("fragile = true", "kind <> 'a'")


def test_the_cells_that_are_named_include_each_column_that_differs_and_columns_left_out_are_counted() -> None:
    reading = read_rides(lambda _: True)
    draft = search(draft_rides(sample_rides()), reading)
    rows = [{**row, "rides": row["rides"] + 1} for row in reading.rows]
    rows[-1]["longest_km"] = rows[-2]["revenue"] = -1
    check = verify(draft, replace(reading, rows=rows))

    assert len(check.differences) == 5
    assert {cell.column for cell in check.differences} == {"rides", "revenue", "longest_km"}
    left_out = replace(draft, omitted={"tips": "nothing reproduces it"})
    adoption = Adoption(draft=left_out, sampled=600, tried=1, verification=check, obstacle=None)
    assert describe_test(adoption)[0].endswith("1 hypothesis tried; 1 column left out.")


def test_a_table_that_is_empty_or_no_delta_table_is_named(tmp_path: Path) -> None:
    batch = Batch(number=0, ends={"t": {0: 1}}, planned_at=0, watermark=0, judged_by=0, is_committed=True)
    checkpoint = SparkCheckpoint(query_id="q", starts={"t": {0: 0}}, batches=(batch,), operators=())
    rows = pa.table({"rides": [1]})
    write_deltalake(str(tmp_path / "empty"), rows.slice(0, 0))
    (tmp_path / "parquet").mkdir()
    pq.write_table(rows, tmp_path / "parquet" / "part-0.parquet")
    expected = {"empty": "is empty", "parquet": "Parquet without a Delta log.*has to be Delta", "none": "found none in"}
    with duckdb.connect() as connection:
        for name, message in expected.items():
            with pytest.raises(DefinitionError, match=re.compile(f"--stream: .*{message}", re.DOTALL)):
                open_job_table(connection, str(tmp_path / name), checkpoint)


def test_a_stated_decimal_is_no_factor_of_doubles() -> None:
    rides = [{**ride, "tip": number % 7 / 4} for number, ride in enumerate(RIDES)]
    sample = sample_rides(rides).state_types({"fare": "decimal(10,2)"})
    stated = Stated(types={"fare": "decimal(10,2)"})
    reading = read_rides(lambda ride: not ride["test"], rides)

    draft = search(draft_rides(sample, stated), reading, stated)

    assert draft.measures["revenue"].text == 'Sum("fare")'
    assert draft.types["fare"] == "decimal(10,2)"
    assert verify(draft, reading).is_exact
