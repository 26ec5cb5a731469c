"""Types, keys and lateness that `init` proposes from sample values, and drafts that load."""

import ast
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from cutover.cli.init import init
from cutover.cli.lint import warnings
from cutover.definition import Avg, Count, Fixed, Max, Pipeline, Sql
from cutover.definition.loading import catalogue
from cutover.output.cells import visible
from cutover.records.proposal import template
from cutover.records.proposal.guess import Guess, Survey
from cutover.records.reference.parse import parse_object
from cutover.settings import Settings

AT = "2013-01-31T10:00:00Z"
Sample = list[dict[str, Any]]


def guess(sample: Sample, partitions: Sequence[int] = ()) -> Guess:
    """Guess a definition from JSON records."""
    survey = Survey(is_cells=False)
    for line, (record, partition) in enumerate(zip(sample, partitions or repeat(0), strict=False), start=1):
        survey.add(line, dict(parse_object(json.dumps(record)).members), partition)
    return survey.guess()


def guess_cells(rows: Sequence[dict[str, str]]) -> Guess:
    """Guess a definition from the cells of a CSV file."""
    survey = Survey(is_cells=True)
    for line, record in enumerate(rows, start=2):
        survey.add(line, record)
    return survey.guess()


def types(guess: Guess) -> dict[str, str]:
    return {column.name: column.type for column in guess.columns}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-7", ""], "bigint"),
        (["9223372036854775807", "-9223372036854775808"], "bigint"),
        (["1", "9223372036854775808"], "decimal(38,0)"),
        (["9223372036854775808", "1"], "decimal(38,0)"),
        (["9" * 38, "-" + "9" * 38], "decimal(38,0)"),
        (["9" * 38, "1.5"], "double"),
        (["1", "1" * 39], "string"),
        (["9" * 38, "1" * 39, "1.5"], "double"),
        (["1" * 39, "1.5"], "double"),
        (["9" * 38, "x"], "string"),
        (["9223372036854775808", "1.5"], "double"),
        (["1" * 400, "1"], "string"),
        (["1" * 400, "1.5"], "string"),
        (["1", "1.5", "2"], "double"),
        (["1", "1.5", "x"], "string"),
        (["01"], "string"),
        (["+1"], "string"),
        ([".5"], "double"),
        (["1e5"], "double"),
        (["1e999"], "string"),
        (["true", "False"], "boolean"),
        (["t"], "string"),
        (["true", "1"], "string"),
        (["2013-01-31"], "date"),
        (["2013-01-31", "2013-02-30"], "string"),
        (["2013-01-31", "2013-01-31T10:00:00Z"], "timestamp"),
        (["2013-01-31T10:00:00Z", "2013-01-31"], "timestamp"),
        (["2013-01-31T10:00:00Z", "9999-12-31T00:00:00Z"], "string"),
        (["2013-01-31T10:00:00Z", "soon"], "string"),
        (["", ""], "string"),
    ],
)
def test_type_of_a_column_of_cells(cells: list[str], expected: str) -> None:
    guess = guess_cells([{"x": cell, "happened": AT} for cell in cells])

    assert types(guess)["x"] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, None], "bigint"),
        ([1, 2**63], "decimal(38,0)"),
        ([2**63, 1.5], "double"),
        ([10**38], "double"),
        ([1, 1.5], "double"),
        (["1", "2"], "decimal(18,0)"),
        (["01", "2"], "string"),
        (["1.5"], "decimal(18,1)"),
        (["true"], "string"),
        (["1772409600"], "decimal(18,0)"),
        ([True, False], "boolean"),
        (["2013-01-31"], "date"),
        ([AT], "timestamp"),
        ([AT, ""], "string"),
        ([None], "string"),
    ],
)
def test_type_of_a_json_field(values: list[Any], expected: str) -> None:
    assert types(guess([{"x": value, "happened": AT} for value in values]))["x"] == expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1, "01"], 'no type accepts both 1 (line 1) and "01" (line 2)'),
        (["a", None, 2.5], 'no type accepts both "a" (line 1) and 2.5 (line 3)'),
        ([True, 1], "no type accepts both true (line 1) and 1 (line 2)"),
        ([1, {"a": 1}], "it is nested"),
    ],
)
def test_a_field_without_a_common_type_is_excluded_with_both_lines(values: list[Any], reason: str) -> None:
    guessed = guess([{"x": value, "happened": AT} for value in values])

    assert dict(guessed.omitted) == {"x": reason}


def test_types_come_from_every_record_and_not_from_the_first_ones() -> None:
    guess = guess_cells([{"x": "1", "at": AT}] * 5_000 + [{"x": "1.5", "at": AT}])

    assert (types(guess)["x"], guess.rows) == ("double", 5_001)


def test_a_log_time_that_is_missing_once_is_none() -> None:
    sample = [{"at": AT, "received_at": AT}] * 2_000

    assert [guess(records).log_time for records in (sample, [*sample, {"at": AT}])] == ["received_at", None]


def test_names_that_differ_by_case_alone_are_one_column(tmp_path: Path) -> None:
    sample: Sample = [{"at": AT, "Amount": 1, "amount": 2, "shop": "a"}, {"at": AT, "AMOUNT": "x", "shop": "b"}]
    pipeline, text = rendered(tmp_path, sample)

    assert "Left out: amount (its name differs from `Amount` only by case)" in text
    assert "Amount bigint" in pipeline.source.schema


@pytest.mark.parametrize("record", [{"value": 10844}, {"value": 0.5}, {"id": 7, "value": 1}])
def test_records_without_a_group_are_one_series(tmp_path: Path, record: dict[str, Any]) -> None:
    sample: Sample = [{"timestamp": AT} | record, {"timestamp": AT} | {name: n + 1 for name, n in record.items()}]
    pipeline, _ = rendered(tmp_path, sample)

    assert (pipeline.key, pipeline.derive) == (("series",), {"series": "'all'"})
    assert "total" in pipeline.measures


def test_an_id_that_repeats_is_a_key_and_no_measure() -> None:
    guessed = guess([{"at": AT, "sensorId": n % 2, "reading": n} for n in range(20)])

    assert (guessed.key, guessed.amount) == ("sensorId", "reading")


def test_a_time_in_a_form_that_no_timestamp_takes_is_noted(tmp_path: Path) -> None:
    _, text = rendered(tmp_path, [{"event_time": AT, "k": "a", "updated_ts": 1772409600000007}])

    assert "`updated_ts` looks like a time that no timestamp takes (micros; a topic has one format of times)" in text


def test_unix_seconds_are_times_by_name_and_range() -> None:
    guessed = guess([{"created_at": 1357035300, "amount": 1357035300, "wait_time": 12}])

    assert types(guessed) == {"created_at": "timestamp", "amount": "bigint", "wait_time": "bigint"}
    assert (guessed.event_time, guessed.time_format) == ("created_at", "seconds")


def test_event_time_and_log_time_are_distinguished_by_name() -> None:
    guessed = guess([{"received_at": "2013-01-31T10:00:05Z", "event_time": "2013-01-31T10:00:00Z"}])

    assert (guessed.event_time, guessed.log_time) == ("event_time", "received_at")


def test_time_in_another_form_is_no_timestamp() -> None:
    guessed = guess([{"event_time": 1357035300, "arrival_time": "2013-01-31T10:00:00Z"}])

    assert (types(guessed)["arrival_time"], guessed.log_time) == ("string", None)


def test_fields_that_cannot_be_declared_are_excluded_with_a_reason() -> None:
    guessed = guess([{"a b": 1, "_class": 1, "nested": {"x": 1}, "many": [1], "ok": 1}])

    assert dict(guessed.omitted) == {
        "nested": "it is nested",
        "many": "it is nested",
    }


def test_key_is_a_text_with_few_values_and_the_amount_no_id() -> None:
    sample = [{"id": n, "who": f"u{n}", "shop": "ab"[n % 2], "order_id": n, "paid": n} for n in range(20)]
    guessed = guess(sample)

    assert (guessed.key, guessed.amount) == ("shop", "paid")


@pytest.mark.parametrize("key", ["k", "events", "total", "Largest"])
def test_rendered_definition_loads_for_any_key_name(tmp_path: Path, key: str) -> None:
    sample: Sample = [{"at": AT, key: "a", "paid": 1.5}, {"at": AT, key: "b"}]
    path = tmp_path / "mine.py"
    path.write_text(template.render_definition("mine", "t", "a.json", guess(sample)), encoding="utf-8")

    (pipeline,) = catalogue.load_file(path)

    assert pipeline.key == (key,)


def test_hostile_names_stay_in_their_comment(tmp_path: Path) -> None:
    sample = [{"at": "2013-01-31T10:00:00Z", "k": "a", '"""\nraise SystemExit\n"""': 1}]
    path = tmp_path / "mine.py"
    path.write_text(template.render_definition("mine", "t", '"""\nraise SystemExit', guess(sample)), encoding="utf-8")

    assert [pipeline.name for pipeline in catalogue.load_file(path)] == ["mine"]


def test_lint_warns_of_the_producers_clock_and_of_a_teams_sums_of_doubles(tmp_path: Path) -> None:
    sample: Sample = [{"at": AT, "k": "a", "paid": 1.5}, {"at": AT, "k": "b"}]
    path = tmp_path / "mine.py"
    path.write_text(template.render_definition("mine", "t", "a.json", guess(sample)), encoding="utf-8")
    (pipeline,) = catalogue.load_file(path)

    assert [text.split(":")[0] for text in warnings(pipeline)] == ["source.log_time"]
    (tmp_path / "team.sql").write_text("SELECT 1", encoding="utf-8")
    team = replace(pipeline, batch=Sql("team.sql"))
    assert [text.split(":")[0] for text in warnings(team)] == ["source.log_time", "measures.total"]


def rendered(tmp_path: Path, sample: Sample) -> tuple[Pipeline, str]:
    path = tmp_path / "mine.py"
    path.write_text(template.render_definition("mine", "t", "a.json", guess(sample)), encoding="utf-8")
    return catalogue.load_file(path)[0], path.read_text(encoding="utf-8")


def shops(seconds: Callable[[int], float], delay: Callable[[int], float], count: int = 1_000) -> Sample:
    """Build records of two shops from their event times and delays."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {
            "event_time": (begin + timedelta(seconds=seconds(n))).isoformat(),
            "received_at": (begin + timedelta(seconds=seconds(n) + delay(n))).isoformat(),
            "shop": "ab"[n % 2],
            "paid": n,
        }
        for n in range(count)
    ]


def test_a_date_is_the_event_time_if_there_is_no_timestamp(tmp_path: Path) -> None:
    days = [f"2024-01-{1 + n % 28:02}" for n in range(56)]
    pipeline, _ = rendered(tmp_path, [{"day": day, "shop": "ab"[n % 2]} for n, day in enumerate(days)])

    assert (pipeline.source.event_time, pipeline.window) == ("day", Fixed(days=1))


def test_a_time_is_the_event_time_before_any_date() -> None:
    assert guess([{"day": "2024-01-01", "at": AT, "k": "a"}]).event_time == "at"


@pytest.mark.parametrize("name", ["delay_minutes", "duration", "waitSeconds", "latency_ms", "temperature", "tax_rate"])
def test_a_measure_that_is_not_additive_is_averaged(tmp_path: Path, name: str) -> None:
    pipeline, _ = rendered(tmp_path, [{"at": AT, "k": "a", name: 5}, {"at": AT, "k": "b", name: 7}])

    assert [type(measure) for measure in pipeline.measures.values()] == [Count, Avg, Max]


def test_an_additive_number_is_preferred_to_a_delay() -> None:
    guessed = guess([{"at": AT, "k": "a", "delay": 5, "paid": 1.5}])

    assert (guessed.amount, guessed.adds_up) == ("paid", True)


def test_lateness_is_that_of_the_sample(tmp_path: Path) -> None:
    # One of a hundred is an hour late, the others come in order, five seconds after they happened.
    sample = shops(lambda n: n * 10, lambda n: 3_600 if n % 200 == 100 else 5)
    pipeline, text = rendered(tmp_path, sample)

    assert (pipeline.lateness.out_of_orderness, pipeline.lateness.allowed) == ("1 second", "1 hour")
    assert "1,000 records in the order in which they arrive, 5 s to 1 h after they happened." in text
    assert "99 % of them are at most 0 s behind the newest before them, 99.9 % at most 59 min 50 s" in text


def test_equally_late_records_are_in_order(tmp_path: Path) -> None:
    pipeline, _ = rendered(tmp_path, shops(lambda n: n * 10, lambda _: 7_200))

    assert (pipeline.lateness.out_of_orderness, pipeline.lateness.allowed) == ("1 second", "1 second")


def test_events_ahead_of_their_arrival_are_accepted(tmp_path: Path) -> None:
    pipeline, _ = rendered(tmp_path, shops(lambda n: n * 10, lambda n: -7_000 if n in {3, 5} else 1))

    assert pipeline.lateness.max_ahead == "3 hours"


def test_one_clock_decades_ahead_or_behind_decides_no_proposal(tmp_path: Path) -> None:
    """If it counted, all later records would be decades late, and the proposed window the longest one."""
    decades = 30 * 365 * 86_400
    clean, _ = rendered(tmp_path, shops(lambda n: n * 10, lambda _: 5))

    for wrong in (decades, -decades):
        sample = shops(lambda n: n * 10, lambda _: 5)
        sample[10]["event_time"] = (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=wrong)).isoformat()
        pipeline, text = rendered(tmp_path, sample)
        assert (pipeline.lateness, pipeline.window) == (clean.lateness, clean.window)
        assert ("1 more record is dated further ahead than `max_ahead`, up to 10949 d 23 h" in text) == (wrong > 0)


def test_a_wrong_clock_is_excluded_without_an_arrival_time(tmp_path: Path) -> None:
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    sample: Sample = [{"at": (begin + timedelta(seconds=10 * n)).isoformat(), "k": "ab"[n % 2]} for n in range(500)]
    sample[10]["at"] = "2094-01-01T00:00:00Z"

    pipeline, text = rendered(tmp_path, sample)

    assert (pipeline.lateness.out_of_orderness, pipeline.lateness.allowed) == ("1 second", "1 second")
    assert "1 more record is dated further ahead than the others" in text


def test_a_heavy_tail_does_not_delay_windows_for_years(tmp_path: Path) -> None:
    """One of 2,000 records is twelve years late; 99.9 % are less than a second out of order."""
    sample = shops(lambda n: n * 10, lambda _: 5, count=2_000)
    sample[1_900]["event_time"] = "2012-01-01T00:00:00Z"
    path = tmp_path / "shop.jsonl"
    path.write_text("\n".join(map(json.dumps, sample)), encoding="utf-8")

    draft_file = init(Settings(home=tmp_path, pipelines=tmp_path / "pipelines"), "shop", str(path)).file

    (pipeline,) = catalogue.load_file(draft_file)
    assert (pipeline.lateness.out_of_orderness, pipeline.lateness.allowed) == ("1 second", "1 second")
    assert "the worst 4383 d 5 h" in draft_file.read_text(encoding="utf-8")


def test_lateness_comes_from_all_records_of_a_file(tmp_path: Path) -> None:
    """The first 1,000 records come in order; of 2,000 further ones every tenth is two hours late."""
    sample = shops(lambda n: n * 10, lambda n: 7_200 if n > 1_000 and n % 10 == 0 else 5, count=3_000)
    path = tmp_path / "shop.jsonl"
    path.write_text("\n".join(map(json.dumps, sample)), encoding="utf-8")

    draft_file = init(Settings(home=tmp_path, pipelines=tmp_path / "pipelines"), "shop", str(path)).file

    text = draft_file.read_text(encoding="utf-8")
    (pipeline,) = catalogue.load_file(draft_file)
    assert (pipeline.lateness.out_of_orderness, pipeline.lateness.allowed) == ("3 hours", "1 second")
    assert "from all 3,000 records of shop.jsonl" in text
    assert "3,000 records of 2 keys, all but the first and the last 30," in text


def test_a_draft_from_a_topic_names_the_newest_records_as_its_basis() -> None:
    text = template.render_definition("mine", "t", "t", guess([{"at": AT, "k": "a"}]), is_topic=True)

    assert "from the newest 1 record of t." in text


@pytest.mark.parametrize(
    ("apart", "window", "rows"),
    [
        (0.01, Fixed(minutes=1), 1_000),
        (1, Fixed(minutes=1), 1_000),
        (30, Fixed(minutes=15), 1_000),
        (9_000, Fixed(days=1), 1_000),
        (0.0001, Fixed(minutes=1), 30_000),
    ],
)
def test_window_and_epoch_follow_how_fast_records_come(tmp_path: Path, apart: float, window: object, rows: int) -> None:
    pipeline, text = rendered(tmp_path, shops(lambda n: n * apart, lambda _: 0))

    assert (pipeline.window, pipeline.max_rows_per_epoch) == (window, rows)
    assert "# Seen: 1,000 records of 2 keys, all but the first and the last 10, within " in text


def test_a_column_named_like_a_word_of_sql_gets_a_hint(tmp_path: Path) -> None:
    _, text = rendered(tmp_path, [{"at": AT, "k": "a", "order": "x"}, {"at": AT, "k": "b", "order": "y"}])

    assert "`order` is a keyword of SQL: quote it with backticks in expressions" in text
    assert """derive={"order_": "`order`"}, key=("order_",)""" in text


def test_sample_without_valid_times_gets_defaults(tmp_path: Path) -> None:
    pipeline, text = rendered(tmp_path, [{"at": AT, "k": "a"}])

    assert (pipeline.window, pipeline.max_rows_per_epoch, pipeline.lateness.allowed) == (
        Fixed(hours=1),
        50_000,
        "1 hour",
    )
    assert "Seen:" not in text


def test_disorder_is_that_of_each_partition() -> None:
    times = [f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
    sample = [{"at": at, "k": key} for key in "ab" for at in times]  # a topic is read partition after partition

    pooled, partitioned = guess(sample), guess(sample, [0, 0, 0, 1, 1, 1])

    assert (pooled.pace.out_of_orderness, partitioned.pace.out_of_orderness) == ("2 days", "1 second")


HOSTILE = [
    "times, \"quoted\" (é, 日本, 'x')",
    "line\nbreak\rreturn\x0cfeed\x85next\u2028separator\u2029end",
    '"""\\',
    "{braces} # and a remark",
    "\x00\x1b[31m\u202e",
    "\udc80",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_of_a_draft_are_printable_single_lines(text: str) -> None:
    guessed = replace(guess([{"at": AT, "x": 1}, {"at": AT, "x": 2}]), omitted={text: "it is nested"})

    draft = template.render_definition("shop", "shop", f"{text}.csv", guessed)

    assert f"        # Left out: {visible(text)} (it is nested)." in draft.split("\n")
    parsed = ast.parse(draft)
    assert f"records of {visible(text)}.csv." in (ast.get_docstring(parsed) or "")
    assert [type(part).__name__ for part in parsed.body] == ["Expr", "ImportFrom", "Assign"]


def test_a_time_that_cannot_be_read_is_shown_as_the_file_has_it(tmp_path: Path) -> None:
    sample: Sample = [{"at": AT, "seen": AT}, {"at": AT, "seen": '2026-13-01, "x"'}]
    _, text = rendered(tmp_path, sample)

    assert r'(times except for line 2, "2026-13-01, \"x\""): string.' in text


def test_records_without_the_event_time_are_counted_in_a_comment(tmp_path: Path) -> None:
    sample: Sample = [{"at": f"2026-04-01T10:00:0{second}Z", "shop": "s"} for second in range(9)]

    _, draft = rendered(tmp_path, [*sample, {"at": None, "shop": "s"}])

    assert "# 1 of 10 records is malformed because `at` is missing." in draft
    assert "is missing" not in rendered(tmp_path, sample)[1]
