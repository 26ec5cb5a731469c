"""Exit code of `cutover watch --once`: 2 where the verdict is UNKNOWN, as where a setting keeps it from asking."""

import json
from dataclasses import replace

import pytest

from cutover.cli.app import main
from cutover.driver_state import DriverState
from cutover.reconcile.cli import watch
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts
from tests.unit.watch.facts_of import ago, facts

GONE = UnknownFact(reason="it cannot be read")
STOPPED = DriverState(alive=False, state="STOPPED", at=ago(9_000))


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    ("monotonic", "verdict", "code"),
    [
        (facts(silent_seconds=61.0), "UNKNOWN", 2),
        (replace(facts(silent_seconds=61.0), epochs=GONE, driver=GONE), "UNKNOWN", 2),
        (facts(), "OK", 0),
        (facts(driver=STOPPED, looks={"end_offsets": {0: 90, 1: 50}, "driver": STOPPED}), "STOPPED", 0),
    ],
)
def test_one_look_ends_with_2_where_its_verdict_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seen: WatchFacts,
    verdict: str,
    code: int,
    form: tuple[str, ...],
) -> None:
    monkeypatch.setattr(watch, "find_definition", lambda *_given, **_named: seen.pipeline)
    monkeypatch.setattr(FactCollector, "collect", lambda _: seen)

    assert main(["watch", seen.pipeline.name, "--once", *form]) == code

    said = capsys.readouterr().out
    assert verdict in said
    assert not form or json.loads(said)["pipeline"] == seen.pipeline.name
