"""Proven faults: the fault happened, and every invariant held afterwards."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from cutover import files
from cutover.errors import LakeError
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from tests.faults.fault import Fault, Part, nothing
from tests.faults.result import Result, append, read, retain_newest
from tests.faults.running import prove as proving
from tests.faults.running.prove import prove
from tests.faults.running.rig import Rig, new_rig


def stop(rig: Rig) -> None:
    """Write the files that a fenced driver leaves behind."""

    def reject() -> None:
        message = "Stream of clicks: epoch 1 was committed by another driver."
        raise LakeError(message, runbook="StreamFenced")

    rig.refused(reject)


def holds(_: Rig) -> Iterator[str]:
    yield from ()


def does_not_hold(_: Rig) -> Iterator[str]:
    yield "a row is missing"


GOOD = Fault(
    id="F00",
    family="driver",
    title="refused",
    needs=frozenset({Part.LAKE}),
    inject=stop,
    happened=lambda rig: rig.exit_code is not None,
    settle=nothing,
    verdicts=frozenset(),
    checks=(),
    holds=(holds,),
    alert="StreamFenced",
    exit_code=2,
)


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(proving, "ALERT_SECONDS", 0.0)

    def prove_it(**changes: Any) -> Result:
        fault = replace(GOOD, **changes)
        return prove(fault, new_rig(settings, fault, seed=1, bootstrap=None), 1)

    return prove_it


def test_a_fault_is_proven_if_all_invariants_hold_afterwards(run: Any) -> None:
    result = run()

    assert (result.outcome, result.why, result.alerts, result.exit_code) == ("proven", "", ("StreamFenced",), 2)
    assert result.holds == ("holds",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"happened": lambda _: False}, "the fault did not happen"),
        ({"exit_code": 1}, "expected exit code 1, got 2"),
        ({"alert": None}, r"expected the alerts none, saw \['StreamFenced'\]"),
        ({"alert": "LogDataLost"}, r"expected the alerts \['LogDataLost'\], saw \['StreamFenced'\]"),
        ({"also": ("LogDataLost",)}, r"expected the alerts \['LogDataLost', 'StreamFenced'\]"),
        ({"holds": (holds, does_not_hold)}, "does not hold: a row is missing"),
        ({"inject": lambda _: 1 / 0}, "ZeroDivisionError"),
        ({"inject": nothing}, "the fault did not happen"),
    ],
)
def test_a_fault_with_a_violation_is_not_proven_and_names_the_reason(
    run: Any, changes: dict[str, Any], reason: str
) -> None:
    result = run(**changes)

    assert result.outcome == "not proven"
    assert re.search(reason, result.why)


def test_an_alert_that_persists_after_healing_is_not_proven_unless_expected(run: Any) -> None:
    def leave(rig: Rig) -> None:
        stop(rig)
        beat = heartbeat.Heartbeat(
            pid=1,
            boot="",
            started=0.0,
            run_id="",
            at="2026-01-01T00:00:00+00:00",
            state="FAILED",
            runbook="StreamFenced",
        )
        files.write_json(heartbeat.run_folder(rig.settings, "clicks") / "heartbeat.json", asdict(beat))

    assert "still fire" in run(inject=leave).why
    assert run(inject=leave, stays=True).outcome == "proven"


def test_the_newer_result_of_a_fault_counts(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first_result, second = run(exit_code=1), run()

    append(file, first_result)
    append(file, second)

    assert read(file) == {"F00": second}


def test_a_partial_run_replaces_its_own_results_and_keeps_the_others(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first_result, second = run(exit_code=1), run()
    for result in (first_result, replace(second, fault="F01"), replace(second, fault="F02-gone"), second):
        append(file, result)

    newest_results = retain_newest(file, ["F00", "F01", "F03"])

    assert newest_results == {"F00": second, "F01": replace(second, fault="F01")} == read(file)
    assert len(file.read_text().splitlines()) == 2


def test_a_result_names_no_folder_of_this_machine(run: Any) -> None:
    def note_path(rig: Rig) -> None:
        stop(rig)
        rig.note("seen", [f"file {rig.settings.home}/lake/x", 7])

    assert run(inject=note_path).evidence == {"seen": ["file <home>/lake/x", 7]}
