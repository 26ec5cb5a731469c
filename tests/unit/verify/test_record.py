"""Violated checks are resolved by a complete run at the same or a newer epoch in which they hold."""

import json
from dataclasses import replace

import pytest

from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.verify.record import fold_violations
from tests.support.history.journal_rows import make_row


def run(epoch: int, *, exhaustive: bool = False, violated: tuple[str, ...] = (), **states: str) -> VerificationRow:
    checks = states | dict.fromkeys(violated, "violated")
    violation_texts = [[name, f"{name} at {epoch}"] for name in violated]
    values = {
        "epoch": epoch,
        "exhaustive": exhaustive,
        "checks": json.dumps(checks),
        "violations": json.dumps(violation_texts),
    }
    return make_row(VerificationRow, **values)


@pytest.mark.parametrize(
    ("runs", "standing"),
    [
        pytest.param([run(5, N1="held", N3="held")], [], id="all hold"),
        pytest.param([run(5, violated=("N3",))], ["N3"], id="violated"),
        pytest.param([run(5, violated=("N3",)), run(6, N3="held")], [], id="judged again"),
        pytest.param([run(5, violated=("N4",)), run(6, N4="held")], ["N4"], id="another sample may miss it"),
        pytest.param([run(5, violated=("N4",)), run(6, exhaustive=True, N4="held")], [], id="everything was examined"),
        pytest.param([run(5, violated=("N3",)), run(4, N3="held")], ["N3"], id="an older epoch says nothing"),
        pytest.param([run(5, violated=("N3",)), run(6, N1="held")], ["N3"], id="another check"),
        pytest.param([run(5, violated=("N3",)), run(6, N3="not_provable")], ["N3"], id="could not be decided"),
        pytest.param([run(5, violated=("N3", "N1"))], ["N1", "N3"], id="two checks"),
    ],
)
def test_a_violation_remains_until_its_check_holds(runs: list[VerificationRow], standing: list[str]) -> None:
    assert [violation.check for violation in fold_violations(runs)] == standing


def test_the_first_sentence_of_a_check_is_kept() -> None:
    row = replace(run(5, violated=("N1",)), violations=json.dumps([["N1", "first"], ["N1", "second"]]))

    assert [violation.text for violation in fold_violations([row])] == ["first"]
