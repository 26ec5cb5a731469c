"""Hypotheses over a small log: the filter, the mode and the measures under which a table has its cells."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from cutover.adoption.adopt import Adoption
from cutover.adoption.completion import complete_draft, list_variants
from cutover.adoption.draft import (
    JobDraft,
    KeyPart,
    MeasureChoice,
    Question,
    Stated,
    make_lower_bound,
    make_upper_bound,
)
from cutover.adoption.evidence import Aggregate, QueryShape, ReadBatch, ReadPlan
from cutover.adoption.hypotheses import Match, find_matches, verify
from cutover.adoption.search import UnexplainedColumn
from cutover.adoption.trial import JobReading, evaluate_draft, is_equal
from cutover.cli.adopt import describe_test
from cutover.definition import Fixed
from cutover.log.kafka import RawRecord

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Record = Mapping[str, Any]
Measures = Mapping[str, Callable[[Sequence[Record]], object]]
PAYMENTS: Sequence[Record] = [
    {
        "merchant": "abc"[number % 3],
        "amount": f"{number * 37 % 100 - 10 + number / 100:.2f}",
        "status": ("settled", "pending", "settled", "failed", None)[number * 7 % 5],
        "at": (NOON + timedelta(minutes=number)).isoformat(),
    }
    for number in range(240)
]
DRAFT = JobDraft(
    name="payments",
    topic="payments",
    checkpoint="/c",
    table="/t",
    types={"merchant": "string", "amount": "decimal(12,2)", "status": "string", "at": "timestamp"},
    paths={},
    event_time="at",
    time_format="iso",
    window=Fixed(hours=1),
    start_column="hour",
    key=(KeyPart(field="merchant", column="merchant"),),
    value_columns={"payments": "BIGINT", "total": "DECIMAL(20,2)"},
    output_mode="update",
)
SHAPE = QueryShape(
    topic="payments",
    is_grouped=True,
    keys=(),
    aggregates=(Aggregate(measures=("Count",), buffers=("count",)), Aggregate(measures=("Sum",), buffers=("sum",))),
    deduplicated_by=None,
    deduplicated_time=None,
    delay=None,
    drops_late=False,
)


def read_log(
    passes: Callable[[Record], bool],
    measures: Mapping[str, Callable[[Sequence[Record]], object]] = MappingProxyType({}),
) -> JobReading:
    """Return the log, with the table of a job that has a filter, and perhaps further measures."""
    records = [
        RawRecord(partition=0, offset=offset, log_time_micros=0, value=json.dumps(each).encode())
        for offset, each in enumerate(PAYMENTS)
    ]
    groups = defaultdict[tuple[datetime, str], list[Record]](list)
    for each in filter(passes, PAYMENTS):
        hour = datetime.fromisoformat(each["at"]).replace(minute=0, tzinfo=None)
        groups[hour, each["merchant"]].append(each)
    rows = [
        {"hour": hour, "merchant": key, "payments": len(group), "total": sum(Decimal(each["amount"]) for each in group)}
        | {name: measure(group) for name, measure in measures.items()}
        for (hour, key), group in groups.items()
    ]
    batch = ReadBatch(number=0, ends={0: len(records)}, judged_by=0, watermark=0)
    plan = ReadPlan(starts={0: 0}, batches=(batch,), whole_from=None, closed_until=0, records=len(records))
    return JobReading(plan=plan, records=[records], rows=rows)


def take_first(question: Question) -> str:
    return question.choices[0]


@pytest.mark.parametrize(
    ("passes", "where"),
    [
        (lambda _: True, None),
        (lambda each: each["status"] == "settled", "status = 'settled'"),
        (lambda each: each["status"] is not None, "status IS NOT NULL"),
        (lambda each: float(each["amount"]) > 0, "amount > 0"),
        (lambda each: float(each["amount"]) >= 12.5, "amount >= 13"),
        (lambda each: each["status"] == "settled" and float(each["amount"]) > 0, "status = 'settled' AND amount > 0"),
    ],
)
def test_the_filter_of_a_job_is_found(passes: Callable[[Record], bool], where: str | None) -> None:
    reading = read_log(passes)
    matches, _ = search(DRAFT, reading)
    draft = complete_draft(matches[0], SHAPE, Stated(), take_first)

    assert {column: choice.text for column, choice in draft.measures.items()} == {
        "payments": "Count()",
        "total": 'Sum("amount")',
    }
    assert draft.types["amount"] == "decimal(10,2)"
    assert draft.where == where
    check = verify(draft, reading)
    assert (check.is_exact, check.differences) == (True, ())


@pytest.mark.parametrize(
    ("measures", "chosen"),
    [
        (
            {"failed": lambda rows: sum(each["status"] == "failed" for each in rows)},
            {"failed": "Sum(\"CASE WHEN status = 'failed' THEN 1 ELSE 0 END\")"},
        ),
        (
            {"refunds": lambda rows: add(each["amount"] for each in rows if Decimal(each["amount"]) < 0)},
            {"refunds": 'Sum("CASE WHEN amount < 0 THEN amount END")'},
        ),
        (
            {
                "settled": lambda rows: add(each["amount"] for each in rows if each["status"] == "settled"),
                "known": lambda rows: sum(each["status"] is not None for each in rows),
            },
            {
                "settled": "Sum(\"CASE WHEN status = 'settled' THEN amount END\")",
                "known": 'Sum("CASE WHEN status IS NOT NULL THEN 1 ELSE 0 END")',
            },
        ),
    ],
)
def test_the_condition_of_a_measure_is_found(measures: Measures, chosen: Mapping[str, str]) -> None:
    reading = read_log(lambda _: True, measures)
    kinds = {name: "BIGINT" if name in {"failed", "known"} else "DECIMAL(20,2)" for name in measures}
    drafted = replace(DRAFT, value_columns={**DRAFT.value_columns, **kinds})
    matches, _ = search(drafted, reading)
    draft = complete_draft(matches[0], SHAPE, Stated(), take_first)

    assert {column: draft.measures[column].text for column in measures} == chosen
    assert draft.where is None
    assert verify(draft, reading).is_exact


def add(amounts: Iterable[str]) -> Decimal | None:
    return sum(map(Decimal, amounts), Decimal(0)) if (amounts := list(amounts)) else None


def search(draft: JobDraft, reading: JobReading) -> tuple[Sequence[Match], int]:
    return find_matches(
        [evaluate_draft(draft, (), reading)],
        lambda variant_of: [
            evaluate_draft(_with_types(variant_of, variant.types), variant.choices, reading)
            for variant in list_variants(variant_of, SHAPE)
        ],
        reading,
        is_filtered=False,
    )


def _with_types(draft: JobDraft, types: Mapping[str, str]) -> JobDraft:
    return replace(draft, types=types)


def test_bounds_have_the_fewest_digits_that_separate_their_values() -> None:
    values = [0.2, 11.83, 14.9, 220.0]

    assert [make_lower_bound("x", values, place).sql for place in range(4)] == [
        "x >= 200",
        "x >= 14",
        "x >= 10",
        "x >= 0",
    ]
    assert make_upper_bound("x", values, 1).sql == "x <= 12"


def test_a_decimal_is_equal_to_the_double_that_was_rounded_to_its_digits() -> None:
    assert is_equal(10 / 3, Decimal("3.333333"), 0.0)
    assert not is_equal(10 / 3, Decimal("3.333334"), 0.0)
    assert not is_equal(Decimal("3.33"), Decimal("3.34"), 0.0)


def test_what_was_found_in_the_newest_records_alone_and_what_nothing_reproduces_is_stated() -> None:
    reading = read_log(lambda _: True)
    reading = replace(reading, plan=replace(reading.plan, is_partial=True))
    draft = replace(DRAFT, measures={"payments": MeasureChoice("Count"), "total": MeasureChoice("Sum", "amount")})
    check = verify(draft, reading)
    nearest = MeasureChoice("Max", "amount")
    unexplained = UnexplainedColumn(nearest=nearest, check=verify(replace(draft, measures={"total": nearest}), reading))
    adoption = Adoption(
        draft=draft, sampled=1, tried=7, verification=check, obstacle=None, unexplained={"total": unexplained}
    )
    first, second, *examples = describe_test(adoption)

    assert "from the newest 240 records of 1 batch (older ones were not read); 7 hypotheses tried" in first
    assert second.startswith("Column `total` is left out: nothing that was tried reproduces it; nearest is Max(")
    assert "in 0 of 12 cells" in second
    assert [example.split(", ")[1][:5] for example in examples] == ["total", "total"]
