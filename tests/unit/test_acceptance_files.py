"""Acceptance rules as files: an invalid rule is reported on one line and accepts nothing."""

from pathlib import Path

import pytest

from cutover import acceptance_files
from cutover.definition import Count, Fixed, Min, Pipeline, Sum, Topic
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

PIPELINE = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, till int, amount double, at timestamp", event_time="at"),
    key=("shop", "till"),
    window=Fixed(hours=1),
    measures={"n": Count(), "total": Sum("amount"), "first": Min("at")},
)
HEAD = 'reason = "r"\nowner = "o"\nexpires = 2027-01-01\nmax_rows = 3\n'
KEYS = 'keys = ["Oslo,1"]\n'


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (HEAD + KEYS + "max_volume = { total = inf }", "`max_volume.total`: Input should be a finite number"),
        (HEAD + KEYS + "max_volume = { total = 1e400 }", "`max_volume.total`: Input should be a finite number"),
        (HEAD + KEYS + "max_volume = { total = nan }", "`max_volume.total`"),
        (HEAD + KEYS + "max_volume = { first = 3 }", "`max_volume.first`: expected a measure whose result is a number"),
        (HEAD + KEYS + "measures = []", "`measures`: List should have at least 1 item"),
        (HEAD + KEYS + "kinds = []", "`kinds`: List should have at least 1 item"),
        (HEAD + "all = true\nkeys = []", "`keys`: List should have at least 1 item"),
        (HEAD + 'keys = ["Oslo"]', "KEY: expected 2 values (shop, till), got 1: `Oslo`"),
        (HEAD + 'keys = ["Oslo,1,2"]', "KEY: expected 2 values (shop, till), got 3: `Oslo,1,2`"),
        (HEAD + "keys = ['\"Oslo,1']", "KEY: expected values separated by commas"),
        ("a = " + "[" * 3_000 + "]" * 3_000, "too deep"),
        (
            HEAD + "windows_from = 2026-01-01T00:00:00Z\nwindows_to = 2027-01-02T00:00:00.000001Z",
            "a range of at most 366 days",
        ),
    ],
)
def test_invalid_rule_is_rejected(rule: str, message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        acceptance_files.parse_rule(rule, PIPELINE)

    assert message in str(refused.value)


def test_a_range_of_366_days_needs_no_key() -> None:
    rule = HEAD + "windows_from = 2026-01-01T00:00:00Z\nwindows_to = 2027-01-02T00:00:00Z"

    assert acceptance_files.parse_rule(rule, PIPELINE).keys == []


@pytest.mark.parametrize("name", ["UP.TOML", ".hidden.toml", "Big.toml", "two words.toml"])
def test_a_file_with_an_invalid_rule_name_is_a_problem_and_accepts_nothing(tmp_path: Path, name: str) -> None:
    lake = PipelineLake(Settings(pipelines=tmp_path), PIPELINE)
    folder = acceptance_files.locate_rule_files(lake)
    folder.mkdir(parents=True)
    (folder / name).write_text(HEAD + KEYS, encoding="utf-8")
    (folder / "README.md").write_text("why", encoding="utf-8")

    loaded = acceptance_files.load_acceptance_rules(lake)

    assert loaded.rules == {}
    assert len(loaded.problems) == 1
    assert "Name of a rule: expected lower-case letters" in next(iter(loaded.problems.values()))
