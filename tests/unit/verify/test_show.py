import io

from rich.console import Console

from cutover.reconcile.verify import show
from cutover.reconcile.verify.model import CheckResult, CheckState, Verification, Violation


def test_a_hint_is_read_as_words_and_data_shows_its_control_characters() -> None:
    out = io.StringIO()
    text = "Table `a\nb`: expected no writer but ours, got an UPDATE.\nHint: `RESTORE` undoes it."
    checked = CheckResult(
        name="N9", title="", state=CheckState.VIOLATED, violations=(Violation(check="N9", text=text),)
    )

    show.print_verification(
        Console(file=out, width=200), Verification(pipeline="p", checks={"N9": checked}, runbook=None, seconds=0.0)
    )

    assert "Table `a\\nb`: expected no writer but ours, got an UPDATE. Hint: `RESTORE` undoes it." in out.getvalue()
