"""The quick drills: each alert fires when it is caused, clears by its page's own commands, and N1 to N6 hold."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cutover.errors import CutoverError
from cutover.infra.drills.catalogue import ALL
from cutover.infra.drills.perform import CHECKS, HELD, DrillOutcome
from cutover.infra.drills.sequence import run_drills
from cutover.settings import Settings

QUICK = tuple(drill for drill in ALL if drill.quick)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, DrillOutcome | CutoverError]:
    """Run them one after another on one stack."""
    place: Path = tmp_path_factory.mktemp("drills")
    outcomes_of_drills = run_drills(Settings(), QUICK, home=place, report_progress=lambda _: None)
    return {drill.name: outcome for drill, outcome in outcomes_of_drills}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [drill.name for drill in QUICK])
def test_alert_fires_and_its_page_mends_it(name: str, outcomes: Mapping[str, DrillOutcome | CutoverError]) -> None:
    outcome = outcomes[name]

    assert not isinstance(outcome, CutoverError), str(outcome)
    assert set(outcome.checks) == set(CHECKS)
    assert set(outcome.checks.values()) <= HELD
    assert any(step.section == "Verify" for step in outcome.steps)
