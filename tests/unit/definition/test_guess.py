"""What `init` guesses of sample values, and that what it writes loads."""

from pathlib import Path
from typing import Any

import pytest

from cutover.definition import catalogue, template
from cutover.definition.guess import Guess, guess
from cutover.definition.lint import warnings

AT = "2013-01-31T10:00:00Z"
Sample = list[dict[str, Any]]


def types(found: Guess) -> dict[str, str]:
    return {column.name: column.type for column in found.columns}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-7", None], "bigint"),
        ([1, 2], "bigint"),
        (["01"], "string"),
        (["1.5", "2"], "double"),
        ([1.5, 2], "double"),
        ([True, False], "boolean"),
        (["true"], "boolean"),
        (["2013-01-31"], "date"),
        (["2013-01-31T10:00:00Z"], "timestamp"),
        (["2013-01-31T10:00:00Z", "soon"], "string"),
        ([None, None], "string"),
        (["1e999"], "string"),
    ],
)
def test_type_of_a_column(values: list[Any], expected: str) -> None:
    assert types(guess([{"x": value} for value in values])) == {"x": expected}


def test_unix_seconds_are_times_by_name_and_range() -> None:
    found = guess([{"created_at": 1357035300, "amount": 1357035300, "wait_time": 12}])

    assert types(found) == {"created_at": "timestamp", "amount": "bigint", "wait_time": "bigint"}
    assert (found.event_time, found.time_format) == ("created_at", "seconds")


def test_event_time_and_log_time_are_told_apart_by_name() -> None:
    found = guess([{"received_at": "2013-01-31T10:00:05Z", "event_time": "2013-01-31T10:00:00Z"}])

    assert (found.event_time, found.log_time) == ("event_time", "received_at")


def test_time_in_another_form_is_no_timestamp() -> None:
    found = guess([{"event_time": 1357035300, "arrival_time": "2013-01-31T10:00:00Z"}])

    assert (types(found)["arrival_time"], found.log_time) == ("string", None)


def test_what_cannot_be_declared_is_left_out_with_its_reason() -> None:
    found = guess([{"a b": 1, "_class": 1, "nested": {"x": 1}, "many": [1], "ok": 1}])

    assert dict(found.left_out) == {
        "a b": "its name is no identifier",
        "_class": "Cutover uses this name itself",
        "nested": "it is nested",
        "many": "it is nested",
    }


def test_key_is_a_text_with_few_values_and_the_amount_no_id() -> None:
    sample = [{"id": n, "who": f"u{n}", "shop": "ab"[n % 2], "order_id": n, "paid": n} for n in range(20)]
    found = guess(sample)

    assert (found.key, found.amount) == ("shop", "paid")


@pytest.mark.parametrize("key", ["k", "events", "total", "Largest"])
def test_rendered_definition_loads_whatever_the_key_is_called(tmp_path: Path, key: str) -> None:
    sample: Sample = [{"at": AT, key: "a", "paid": 1.5}, {"at": AT, key: "b"}]
    path = tmp_path / "mine.py"
    path.write_text(template.render("mine", "t", "a.json", guess(sample)), encoding="utf-8")

    (pipeline,) = catalogue.load_file(path)

    assert pipeline.key == (key,)


def test_hostile_names_stay_in_their_comment(tmp_path: Path) -> None:
    sample = [{"at": "2013-01-31T10:00:00Z", "k": "a", '"""\nraise SystemExit\n"""': 1}]
    path = tmp_path / "mine.py"
    path.write_text(template.render("mine", "t", '"""\nraise SystemExit', guess(sample)), encoding="utf-8")

    assert [pipeline.name for pipeline in catalogue.load_file(path)] == ["mine"]


def test_lint_warns_of_the_producers_clock_and_of_sums_of_doubles(tmp_path: Path) -> None:
    sample: Sample = [{"at": AT, "k": "a", "paid": 1.5}, {"at": AT, "k": "b"}]
    path = tmp_path / "mine.py"
    path.write_text(template.render("mine", "t", "a.json", guess(sample)), encoding="utf-8")
    (pipeline,) = catalogue.load_file(path)

    assert [text.split(":")[0] for text in warnings(pipeline)] == ["source.log_time", "measures.total"]
