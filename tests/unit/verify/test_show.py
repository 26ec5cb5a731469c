import pytest

from cutover.output.console import Output, render
from cutover.reconcile.cli import audit
from cutover.reconcile.verify.facts.facts import CheckResult, CheckState, Verification, Violation


def test_hint_is_text_and_data_shows_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "Table `a\nb`: expected no writer but ours, got an UPDATE.\nHint: `RESTORE` undoes it."
    checked = CheckResult(
        name="N9", title="", state=CheckState.VIOLATED, violations=(Violation(check="N9", text=text),)
    )

    verification = Verification(pipeline="p", checks={"N9": checked}, runbook=None, seconds=0.0)
    render(iter([Output(lines=audit.list_verification_lines(verification))]))

    assert (
        "Table `a\\nb`: expected no writer but ours, got an UPDATE. Hint: `RESTORE` undoes it."
        in capsys.readouterr().out
    )
