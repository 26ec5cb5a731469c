"""Exit code of `cutover watch --once`: 2 where the verdict is UNKNOWN, as for an invalid setting."""

import json
from dataclasses import replace

import pytest

from cutover.cli import definitions
from cutover.cli.app import main
from cutover.driver_state import DriverState
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts
from tests.support.history.watch_facts import ago, make_facts

GONE = UnknownFact(reason="it cannot be read")
STOPPED = DriverState(alive=False, state="STOPPED", at=ago(9_000))


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize(
    ("facts", "verdict", "code"),
    [
        (make_facts(silent_seconds=61.0), "UNKNOWN", 2),
        (replace(make_facts(silent_seconds=61.0), epochs=GONE, driver=GONE), "UNKNOWN", 2),
        (make_facts(), "OK", 0),
        (make_facts(driver=STOPPED, sampled={"end_offsets": {0: 90, 1: 50}, "driver": STOPPED}), "STOPPED", 0),
    ],
)
def test_unknown_verdict_exits_with_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    facts: WatchFacts,
    verdict: str,
    code: int,
    options: tuple[str, ...],
) -> None:
    monkeypatch.setattr(definitions, "load_command_definition", lambda *_arguments, **_options: facts.pipeline)
    monkeypatch.setattr(FactCollector, "collect", lambda _: facts)

    assert main(["watch", facts.pipeline.name, "--once", *options]) == code

    output = capsys.readouterr().out
    assert verdict in output
    assert not options or json.loads(output)["pipeline"] == facts.pipeline.name
