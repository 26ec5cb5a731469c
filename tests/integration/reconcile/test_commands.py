"""The command line: exit codes, one JSON object, what people see."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.settings import Settings
from tests.integration.reconcile.diff.test_tables import ROWS, change_row, parquet
from tests.integration.reconcile.lake_of import PIPELINE, Sale, edit_batch_row, lake_of, replace_batch, write

DEFINITION = """
from cutover.definition import *
sales = Pipeline(
    name="sales",
    source=Topic(name="sales", event_time="at",
                 schema="id bigint NOT NULL, shop string, desk int, amount bigint, at timestamp"),
    key=("shop", "desk"), window=Fixed(hours=1),
    measures={"sales": Count(), "revenue": Sum("amount"), "least": Min("amount"), "most": Max("amount"),
              "mean": Avg("amount")},
    lateness=Lateness(allowed="1 hour"), policy=Policy(max_late_share=0.5),
)
"""
SALES = (*(Sale(hour=h, amount=h) for h in range(5)), Sale(epoch=1, hour=2, shop=None, amount=9, kind="late"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")


@pytest.mark.quick
def test_reconcile_prints_one_object_and_exits_zero(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES[:-1]))

    exit_code = app.main(["reconcile", "sales", "--json"])

    printed = capsys.readouterr().out.splitlines()[-1]
    assert (exit_code, json.loads(printed)["verdict"]) == (0, "CONSISTENT")


def test_a_cause_that_no_log_bears_out_exits_two(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES))

    exit_code = app.main(["reconcile", "sales"])

    output = " ".join(capsys.readouterr().out.split())
    assert (exit_code, "their causes cannot be verified from the log" in output) == (2, True)


def test_a_divergence_exits_one(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, edit_batch_row(lake_of(SALES), 0, lambda _: None))

    assert (app.main(["reconcile", "sales"]), "DIVERGED" in capsys.readouterr().out) == (1, True)


def test_what_cannot_be_compared_exits_two(home: Settings) -> None:
    lake = lake_of(SALES)
    write(home, replace(lake, run=replace(lake.run, topic_id="another")))

    assert app.main(["reconcile", "sales", "--json"]) == 2


def test_a_bad_time_exits_two_and_writes_nothing(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES))

    exit_code = app.main(["reconcile", "sales", "--from", "soon"])

    assert (exit_code, "--from" in capsys.readouterr().err, home.reports_dir.exists()) == (2, True, False)


def test_report_prints_the_address_of_the_newest(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES))
    app.main(["reconcile", "sales"])
    capsys.readouterr()

    exit_code = app.main(["report", "sales"])

    address = capsys.readouterr().out.replace("\n", "")
    assert (exit_code, Path(address.removeprefix("file://")).is_file()) == (0, True)


@pytest.mark.quick
def test_no_report_yet_exits_two(home: Settings) -> None:  # noqa: ARG001 -- sets the environment
    assert app.main(["report", "sales"]) == 2


@pytest.mark.quick
def test_explain_prints_the_rows_behind_a_cell(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES))

    exit_code = app.main(["explain", "sales", "2026-01-01T02:00:00Z", "null,1", "--json"])

    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (exit_code, [(row["class"], row["partition"], row["offset"]) for row in answer["rows"]]) == (
        0,
        [("late", 0, 5)],
    )


@pytest.mark.parametrize("key", ["null", "null,x", "nowhere,1"])
def test_explain_refuses_a_key_that_is_not_there(home: Settings, key: str) -> None:
    write(home, lake_of(SALES))

    assert app.main(["explain", PIPELINE.name, "2026-01-01T02:00:00Z", key]) == 2


def test_diff_writes_its_report(tmp_path: Path) -> None:
    left, right = parquet(tmp_path / "l.parquet", ROWS), parquet(tmp_path / "r.parquet", change_row(0, amount=1))
    page = tmp_path / "report.html"

    exit_code = app.main(["diff", left, right, "--key", "day,shop", "--window-column", "day", "--report", str(page)])

    assert (exit_code, page.read_text(encoding="utf-8").startswith("<!")) == (1, True)


def test_diff_shows_long_texts_with_their_length_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, last_cell in (("l", "y"), ("r", "z")):
        (tmp_path / f"{name}.csv").write_text(f"k,v\n{'x' * 90_000},{'x' * 90_000}{last_cell}\n", encoding="utf-8")

    assert app.main(["diff", str(tmp_path / "l.csv"), str(tmp_path / "r.csv"), "--key", "k"]) == 1

    output = capsys.readouterr().out
    assert len(output) < 3_000
    assert output.count("(90,001") == 2


@pytest.mark.parametrize("tolerance", ["amount", "amount=", "amount=-1", "=1", "nope=1"])
def test_diff_refuses_a_bad_tolerance(tmp_path: Path, tolerance: str) -> None:
    table = parquet(tmp_path / "l.parquet", ROWS)

    assert app.main(["diff", table, table, "--key", "day,shop", "--tolerance", tolerance]) == 2


@pytest.mark.quick
def test_history_follows_runs_and_windows(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, edit_batch_row(lake_of(SALES[:-1]), 2, lambda row: row | {"revenue": 99}))
    app.main(["reconcile", "sales"])
    capsys.readouterr()

    outputs = {}
    windows = {name: ["--window", f"2026-01-01T0{name}:00:00Z"] for name in "129"}
    for name, words in {"trend": [], **windows}.items():
        assert app.main(["history", "sales", *words, "--json"]) == 0
        (outputs[name],) = json.loads(capsys.readouterr().out)
        assert app.main(["history", "sales", *words]) == 0
        assert "sales" in capsys.readouterr().out

    assert (outputs["trend"]["verdict"], outputs["trend"]["times"], outputs["trend"]["unexplained"]) == (
        "DIVERGED",
        1,
        1,
    )
    assert {name: outputs[name]["state"] for name in windows} == {"1": "equal", "2": "unexplained", "9": "not judged"}


def test_history_says_what_changed(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    edited_lake = edit_batch_row(lake_of(SALES[:-1]), 2, lambda row: row | {"revenue": 99})
    second = edit_batch_row(lake_of(SALES[:-1]), 2, lambda row: row | {"revenue": 98})
    write(home, edited_lake)
    app.main(["reconcile", "sales"])
    replace_batch(home, replace(second, run=replace(second.run, run_id="b2", finished="2026-01-07T00:00:00Z")))
    app.main(["reconcile", "sales"])
    capsys.readouterr()

    assert app.main(["history", "sales", "--changes", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert app.main(["history", "sales", "--changes"]) == 0

    assert [(change["before"]["batch"], change["after"]["batch"]) for change in answer["other_amount"]] == [(99, 98)]
    assert (answer["new"], answer["gone"], answer["is_whole"]) == ([], [], True)
    assert "other amount" in capsys.readouterr().out


def test_history_needs_two_runs_to_compare(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, lake_of(SALES))

    assert app.main(["history", "sales"]) == 2
    app.main(["reconcile", "sales"])
    assert app.main(["history", "sales", "--changes"]) == 2
    assert "expected two comparisons" in capsys.readouterr().err
    assert app.main(["history", "sales", "--before", "2026"]) == 2


@pytest.mark.quick
def test_open_differences_are_listed_until_they_are_judged_away(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_of(SALES[:-1])
    write(home, edit_batch_row(lake, 2, lambda row: row | {"revenue": 99}))
    assert app.main(["differences", "sales"]) == 0
    app.main(["reconcile", "sales"])
    capsys.readouterr()

    assert app.main(["differences", "sales", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["window_start"], row["key"], row["kind"], row["runs"]) == (
        "2026-01-01T02:00:00Z",
        {"desk": 1, "shop": "a"},
        "changed",
        1,
    )
    assert app.main(["differences", "sales"]) == 1
    assert "Differences of sales without a cause: 1 open" in capsys.readouterr().out

    replace_batch(home, replace(lake, run=replace(lake.run, run_id="b2", finished="2026-01-07T00:00:00Z")))
    app.main(["reconcile", "sales"])
    assert app.main(["differences", "sales"]) == 0
