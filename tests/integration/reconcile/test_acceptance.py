"""The life of a difference: pending, open, accepted by a rule, closed by a person, and back; and what each changes."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cutover import acceptance_files
from cutover.cli import app
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import Condition, decide
from cutover.reconcile.report import page
from cutover.reconcile.result.finding import RuleState, Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.lifecycle import DifferenceState
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.reconcile.watch import findings
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import Lake, Sale, edit_batch_row, lake_of, reconcile, replace_batch, write
from tests.integration.reconcile.test_commands import DEFINITION
from tests.integration.reconcile.test_run import SCHEMA

SALES = tuple(Sale(hour=h, shop=shop, amount=h) for h in range(5) for shop in ("a", "b"))
NEXT_YEAR = f"{SystemClock().now() + timedelta(days=300):%Y-%m-%d}"
TWO = 2


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")


@pytest.fixture
def sales(home: Settings) -> Pipeline:
    return catalogue.get(home, "sales")


@pytest.fixture
def spoilt(home: Settings, sales: Pipeline) -> Lake:
    """Return a lake that was written with two rows of batch that nothing explains: of windows 0 and 1."""
    lake = spoil(spoil(lake_of(SALES, sales), 0), TWO)
    write(home, lake, sales)
    assert reconcile(PipelineLake(home, sales)).finding.verdict is Verdict.DIVERGED
    return lake


def spoil(lake: Lake, place: int) -> Lake:
    return edit_batch_row(lake, place, lambda row: row | {"revenue": int(row["revenue"]) + 10})


def rewrite(settings: Settings, lake: Lake, pipeline: Pipeline, number: int) -> None:
    run = replace(lake.run, run_id=f"b{number}", finished=f"2026-01-{10 + number}T00:00:00Z")
    replace_batch(settings, replace(lake, run=run), pipeline)


def accept(*words: str) -> int:
    return app.main(["accept", "sales", "--reason", "A backfill", "--owner", "data", "--expires", NEXT_YEAR, *words])


def write_rule(settings: Settings, name: str, **fields: Any) -> None:
    folder = settings.pipelines / "accepted" / "sales"
    folder.mkdir(parents=True, exist_ok=True)
    rule = {"reason": "r", "owner": "o", "expires": "2100-01-01T00:00:00Z", "max_rows": 10, "all": True} | fields
    lines = (f"{key} = {value if key == 'expires' else json.dumps(value)}" for key, value in rule.items())
    (folder / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")


def states(lake: PipelineLake) -> list[DifferenceState]:
    return sorted(difference.state for difference in history.read_open_differences(lake).values())


def rules_condition(lake: PipelineLake, now: datetime | None = None) -> Condition:
    at = now or SystemClock().now()
    gate_evidence = evidence.read_evidence(lake, at)
    decision = decide(Stage.LAMBDA, gate_evidence, "advance", lake.pipeline.policy, at)
    return next(condition for condition in decision.conditions if condition.name == "accepted")


def reasons(result: Report) -> str:
    return " ".join((*result.finding.policy.reasons, *result.finding.notes))


@pytest.mark.quick
@pytest.mark.usefixtures("spoilt")
def test_what_rules_accept_is_no_divergence_and_no_finding(home: Settings, sales: Pipeline) -> None:
    assert accept("--window", "2026-01-01T00:00:00Z", "--window-to", "2026-01-02") == 0

    lake = PipelineLake(home, sales)
    report = reconcile(lake)

    assert (
        report.finding.verdict,
        report.finding.exit_code,
        report.finding.policy.unexplained,
        report.finding.policy.accepted,
    ) == ("ACCEPTED", 0, 2, 2)
    assert "2 rows without an explanation are accepted by rule: within the policy" in report.finding.sentence
    assert states(lake) == [DifferenceState.ACCEPTED, DifferenceState.ACCEPTED]
    assert app.main(["differences", "sales"]) == 0
    assert list(findings.list_comparison_problems(lake)) == []
    checked = verify_pipeline(lake, only=["N5"], clock=SystemClock())
    assert checked.checks["N5"].state is CheckState.HELD
    condition = rules_condition(lake)
    assert (condition.is_met, condition.detail) == (True, "1 in force")
    jsonschema.validate(json.loads(json.dumps(report.to_json())), SCHEMA)
    assert "A backfill" in page.render_page(report)


@pytest.mark.usefixtures("spoilt")
def test_a_new_rule_says_which_others_take_its_rows(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write_rule(home, "a-past", expires="2020-01-01T00:00:00Z")
    write_rule(home, "a-other", keys=["nobody"])
    write_rule(home, "z-later")

    assert accept("--window", "2026-01-01T00:00:00Z", "--name", "b-new") == 0

    output = capsys.readouterr().out
    assert "Rule `a-past` comes first by name for 1 of them, and has expired: they stay with it." in output
    assert output.count("comes first") == 1


@pytest.mark.usefixtures("spoilt")
def test_what_a_rule_leaves_stays_a_divergence(home: Settings, sales: Pipeline) -> None:
    assert accept("--window", "2026-01-01T00:00:00Z") == 0

    lake = PipelineLake(home, sales)
    report = reconcile(lake)

    assert (report.finding.verdict, report.finding.exit_code, report.finding.policy.accepted) == (
        Verdict.DIVERGED,
        1,
        1,
    )
    assert "1 row has no explanation, rules accept 1 more" in report.finding.sentence
    assert states(lake) == [DifferenceState.ACCEPTED, DifferenceState.OPEN]
    assert [trouble.runbook for trouble in findings.list_comparison_problems(lake)] == ["DivergenceUnexplained"]


@pytest.mark.parametrize(
    ("fields", "state", "message"),
    [
        ({"expires": "2020-01-01T00:00:00Z"}, RuleState.EXPIRED, "it has expired, 2020-01-01"),
        ({"max_rows": 1}, RuleState.EXCEEDED, "2 rows fit it, and it allows 1"),
        ({"max_volume": None}, RuleState.EXCEEDED, "`revenue` differs by 20 in all, and it allows 19"),
        ({"all": False}, RuleState.UNREADABLE, "expected `keys`, or both ends of a range"),
        ({"max_rows": 10_000}, RuleState.UNREADABLE, "`max_rows`: Input should be less than or equal to 500"),
        ({"measures": ["none"]}, RuleState.UNREADABLE, "measure `none`: expected one of sales, revenue"),
        ({"color": "red"}, RuleState.UNREADABLE, "`color`: Extra inputs are not permitted"),
    ],
)
@pytest.mark.usefixtures("spoilt")
def test_a_rule_that_does_not_hold_accepts_nothing(
    home: Settings, sales: Pipeline, fields: dict[str, Any], state: RuleState, message: str
) -> None:
    write_rule(home, "broken", **{name: value for name, value in fields.items() if value is not None})
    if "max_volume" in fields:
        path = acceptance_files.locate_rule_files(PipelineLake(home, sales)) / "broken.toml"
        path.write_text(path.read_text(encoding="utf-8") + "\nmax_volume = { revenue = 19 }", encoding="utf-8")

    lake = PipelineLake(home, sales)
    report = reconcile(lake)

    assert (
        report.finding.verdict,
        report.finding.policy.accepted,
        [rule.state for rule in report.finding.accepted],
    ) == (
        "DIVERGED",
        0,
        [state],
    )
    assert message in reasons(report)
    assert not rules_condition(lake).is_met


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"keys": ["a,1"]}, 2),
        ({"keys": ["b,1"]}, 0),
        ({"kinds": ["missing"]}, 0),
        ({"measures": ["revenue"]}, 2),
        ({"measures": ["least"]}, 0),
        ({"windows_from": "2026-01-01T01:00:00Z"}, 1),
        ({"windows_to": "2026-01-01T01:00:00Z"}, 1),
    ],
)
@pytest.mark.usefixtures("spoilt")
def test_a_rule_is_about_the_rows_that_it_names(
    home: Settings, sales: Pipeline, fields: dict[str, Any], rows: int
) -> None:
    write_rule(home, "narrow", **{k: v for k, v in fields.items() if not k.startswith("windows")})
    path = acceptance_files.locate_rule_files(PipelineLake(home, sales)) / "narrow.toml"
    bounds = "".join(f"\n{name} = {value}" for name, value in fields.items() if name.startswith("windows"))
    path.write_text(path.read_text(encoding="utf-8") + bounds, encoding="utf-8")

    assert reconcile(PipelineLake(home, sales)).finding.policy.accepted == rows


def test_a_rule_that_expires_or_goes_takes_the_evidence_with_it(home: Settings, sales: Pipeline, spoilt: Lake) -> None:
    write_rule(home, "for-now", expires="2099-01-01T00:00:00Z")
    lake = PipelineLake(home, sales)
    assert reconcile(lake).finding.verdict is Verdict.ACCEPTED

    assert "has expired" in rules_condition(lake, datetime(2099, 1, 1, tzinfo=UTC)).detail
    write_rule(home, "for-now", expires="2099-01-02T00:00:00Z")
    assert "was changed or removed" in rules_condition(lake).detail
    (acceptance_files.locate_rule_files(PipelineLake(home, sales)) / "for-now.toml").unlink()
    assert rules_condition(lake).is_met is False
    rewrite(home, spoilt, sales, 1)
    assert reconcile(lake).finding.verdict is Verdict.DIVERGED
    assert states(lake) == [DifferenceState.OPEN, DifferenceState.OPEN]


def test_a_difference_that_comes_back_has_its_history(home: Settings, sales: Pipeline, spoilt: Lake) -> None:
    lake = PipelineLake(home, sales)
    (first_difference, _) = history.read_open_differences(lake).values()
    rewrite(home, lake_of(SALES, sales), sales, 1)
    assert (reconcile(lake).finding.verdict, states(lake)) == (Verdict.CONSISTENT, [])

    rewrite(home, spoil(spoilt, 4), sales, 2)
    reconcile(lake)

    differences_by_window = {
        difference.window_start: difference for difference in history.read_open_differences(lake).values()
    }
    back = differences_by_window[first_difference.window_start]
    assert (back.first_seen, back.runs, back.returned) == (first_difference.first_seen, 2, 1)
    assert differences_by_window["2026-01-01T02:00:00Z"].returned == 0


def test_what_a_person_closes_is_off_the_list_until_it_is_found_again(
    home: Settings, sales: Pipeline, spoilt: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["resolve", "sales", "2026-01-01T00:00:00Z", "a,1", "--why", "Batch was rerun"]) == 0
    assert "off the list" in capsys.readouterr().out
    lake = PipelineLake(home, sales)
    assert len(states(lake)) == 1
    reconcile(lake)  # the same cut says nothing new
    assert len(states(lake)) == 1

    rewrite(home, spoil(spoilt, 4), sales, 1)
    reconcile(lake)

    assert sorted(difference.returned for difference in history.read_open_differences(lake).values()) == [
        0,
        0,
        1,
    ]
    assert app.main(["resolve", "sales", "2026-01-01T00:00:00Z", "nobody,1", "--why", "x"]) == 2
    assert "is known in window" in capsys.readouterr().err


def test_a_young_difference_is_pending_and_wakes_nobody(home: Settings, spoilt: Lake) -> None:
    text = DEFINITION.replace("max_late_share=0.5", 'max_late_share=0.5, settles_after="30 days"')
    (home.pipelines / "sales.py").write_text(text, encoding="utf-8")
    patient = catalogue.get(home, "sales")

    lake = PipelineLake(home, patient)
    assert states(lake) == [DifferenceState.PENDING, DifferenceState.PENDING]
    assert list(findings.list_comparison_problems(lake)) == []
    assert app.main(["differences", "sales"]) == 0
    assert spoilt.run.run_id in {str(line.result["tables"]["batch_run"]) for line in history.list_current_first(lake)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "expected `--key`, or both ends of a range of at most 366 days, or `--all`"),
        (("--window", "1990-01-01", "--window-to", "2026-02-01"), "at most 366 days"),
        (("--key", "c,1"), "expected 1 to 500 open differences of `sales` that fit it, got none"),
        (("--key", "a,1", "--kind", "odd"), "`--kinds`: Input should be"),
        (("--key", "a,1", "--max-rows", "0"), "`--max-rows`: Input should be greater than or equal to 1"),
        (("--key", "a,1", "--max-volume", "revenue"), "`--max-volume`: expected a measure and a number"),
        (("--key", "a,1", "--max-volume", "none=1"), "measure `none`: expected one of"),
        (("--key", "a,1", "--name", "../x"), "Name of a rule: expected lower-case letters"),
        (("--key", "a,1", "--max-volume", "revenue=inf"), "`--max-volume`: Input should be a finite number"),
        (("--key", "a"), "expected 2 values (shop, desk), got 1"),
        (("--key", "a,1", "--expires", "2020-01-01"), "`--expires`: expected a time from now on"),
        (("--key", "a,1", "--expires", "2199-01-01"), "at most 366 days ahead"),
        (("--key", "a,1", "--reason", " "), "`--reason`: String should match"),
    ],
)
@pytest.mark.usefixtures("spoilt")
def test_a_rule_that_says_too_little_or_nonsense_is_refused(
    home: Settings, sales: Pipeline, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accept(*words) == 2

    assert message in capsys.readouterr().err
    assert not acceptance_files.locate_rule_files(PipelineLake(home, sales)).exists()


@pytest.mark.usefixtures("spoilt")
def test_a_written_rule_says_what_was_typed_and_is_not_written_over(home: Settings, sales: Pipeline) -> None:
    hostile = 'a "b" \\ \n \x7f \u2028 é'
    words = ("--key", "a,1", "--max-volume", "revenue=100", "--reason", hostile, "--name", "mine")

    assert (accept(*words), accept(*words)) == (0, 2)

    (rule,) = acceptance_files.load_acceptance_rules(PipelineLake(home, sales)).rules.values()
    assert (rule.reason, rule.keys, rule.max_rows, rule.max_volume) == (hostile, ["a,1"], 2, {"revenue": 100.0})
    assert app.main(["lint"]) == 0


def test_a_rule_that_no_one_can_read_fails_lint(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write_rule(home, "expired", expires="2020-01-01T00:00:00Z")
    assert app.main(["lint", "sales"]) == 0
    assert "acceptance rule `expired` has expired" in capsys.readouterr().out
    write_rule(home, "odd", max_rows="many")

    assert app.main(["lint", "sales"]) == 2
    assert "odd.toml: `max_rows`: Input should be a valid integer" in capsys.readouterr().err
