"""One run of one fault, from its cause to its result."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from cutover.errors import CutoverError
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.watch.alerts.catalogue import ALERTS_BY_NAME
from cutover.records.classes import Class
from tests.faults.fault import Fault
from tests.faults.result import Result
from tests.faults.running.rig import Rig

ALERT_SECONDS = 20.0
REPOSITORY = Path(__file__).resolve().parents[3]


class NotProvenError(AssertionError):
    """The fault did not happen, or something did not hold after it."""


def prove(fault: Fault, rig: Rig, seed: int) -> Result:
    """Run a fault and return its result; whatever fails is in `outcome` and `why`."""
    began = time.monotonic()
    result = Result(fault=fault.name, outcome="not proven", seed=seed)
    try:
        result = _cause(fault, rig, result)
        result = _heal_and_check(fault, rig, result)
        result = replace(result, outcome="proven")
    except Exception as error:  # noqa: BLE001 -- the result says it, and the test fails by it
        result = replace(result, why=f"{type(error).__name__}: {error}"[:2000])
    _sometimes(rig)
    evidence = {name: _portable(rig, value) for name, value in rig.evidence.items() if _plain(value)}
    result = replace(result, evidence=evidence, why=str(_portable(rig, result.why)))
    seconds = round(time.monotonic() - began, 1)
    return replace(result, seconds=seconds, sometimes=tuple(sorted(rig.sometimes)))


def _cause(fault: Fault, rig: Rig, result: Result) -> Result:
    fault.inject(rig)
    if not fault.happened(rig):
        msg = f"the fault did not happen: {rig.evidence}"
        raise NotProvenError(msg)
    alerts = _alerts(fault, rig)
    if fault.exit_code is not None and rig.exit_code != fault.exit_code:
        msg = f"expected exit code {fault.exit_code}, got {rig.exit_code}: {rig.said[-500:]}"
        raise NotProvenError(msg)
    _no_stack(rig)
    return replace(result, alerts=tuple(sorted(alerts)), exit_code=rig.exit_code)


def _alerts(fault: Fault, rig: Rig) -> set[str]:
    """Return the alerts seen: exactly those of the fault, waited for; and for a silent one none."""
    expected = {fault.alert, *fault.also} - {None}
    deadline = time.monotonic() + ALERT_SECONDS
    rig.alerts()
    while not expected <= rig.seen and time.monotonic() < deadline:
        time.sleep(0.1)
        rig.alerts()
    alerts = {name for name in rig.seen - fault.may if name in expected or not _is_info(name)}
    if alerts != expected:
        msg = (
            f"expected the alerts {sorted(map(str, expected)) or 'none'}, saw {sorted(alerts) or 'none'}: {rig.firing}"
        )
        raise NotProvenError(msg)
    return rig.seen & (alerts | fault.may)


def _is_info(name: str) -> bool:
    """Return whether an alert is only shown."""
    return name in ALERTS_BY_NAME and ALERTS_BY_NAME[name].severity == "info"


def _no_stack(rig: Rig) -> None:
    """The message of a process that stopped is for people: no stack of the JVM in it."""
    if rig.exit_code == 2 and "\tat org.apache" in rig.said:
        msg = f"a JVM's stack in the output of the process that stopped: {rig.said[-500:]}"
        raise NotProvenError(msg)


def _heal_and_check(fault: Fault, rig: Rig, result: Result) -> Result:
    fault.heal(rig)
    fault.settle(rig)
    result = replace(result, cleared=_check_cleared(fault, rig), verdict=_verdict(fault, rig))
    result = replace(result, checks=_checks(fault, rig))
    return replace(result, holds=_holds(fault, rig))


def _verdict(fault: Fault, rig: Rig) -> str | None:
    if not fault.verdicts:
        return None
    report = rig.reconciliations[-1]
    if report.finding.verdict not in fault.verdicts:
        msg = f"expected the verdict {sorted(fault.verdicts)}, got {report.finding.verdict}: {report.finding.sentence}"
        raise NotProvenError(msg)
    return str(report.finding.verdict.value)


def _checks(fault: Fault, rig: Rig) -> tuple[str, ...]:
    if not fault.checks:
        return ()
    result = rig.verify(fault.checks)
    _none(f"{v.check}: {v.text}" for v in result.violations)
    _none([] if result.error is None else [result.error])
    unproven = (check for check in result.checks.values() if check.state is CheckState.NOT_PROVABLE)
    _none(f"{check.name} cannot be judged: {check.reason}" for check in unproven)
    _none(f"{name} was not judged" for name in fault.checks if name not in result.checks)
    return fault.checks


def _holds(fault: Fault, rig: Rig) -> tuple[str, ...]:
    for hold in fault.holds:
        _none(f"{name_as_sentence(hold)}: {text}" for text in hold(rig))
    return tuple(name_as_sentence(hold) for hold in fault.holds)


def _check_cleared(fault: Fault, rig: Rig) -> bool:
    still = {name for name in rig.alerts() - fault.may if not _is_info(name)}
    if still and not fault.stays:
        msg = f"expected no alert after the fault was healed, {sorted(still)} still fire: {rig.firing}"
        raise NotProvenError(msg)
    return not still


def _sometimes(rig: Rig) -> None:
    """Note what happened in passing; what a fault does on purpose it says itself."""
    try:
        records = rig.records()
    except CutoverError:  # a fault may leave a table that cannot be read, on purpose
        records = []
    if any(record.counts.get(Class.LATE.value) for record in records):
        rig.saw("late")
    if any(record.conflicts for record in records):
        rig.saw("conflict")
    if "StreamFenced" in rig.seen or any(event.get("runbook") == "StreamFenced" for event in rig.events()):
        rig.saw("fenced")


def _portable(rig: Rig, value: object) -> object:
    """Return a value without the folders of this machine: results are published."""
    if isinstance(value, list):
        return [_portable(rig, item) for item in value]
    if not isinstance(value, str):
        return value
    return value.replace(str(rig.settings.home.resolve()), "<home>").replace(str(REPOSITORY), "<repository>")


def _plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    return isinstance(value, int | float | str)


def _none(violations: Iterable[str]) -> None:
    violation_list = list(violations)
    if violation_list:
        raise NotProvenError("; ".join(violation_list[:10]))


def name_as_sentence(hold: Callable[..., object]) -> str:
    """Return a check's name as a sentence."""
    return hold.__name__.replace("_", " ").strip()
