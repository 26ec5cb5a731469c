"""Moves against a real lake: what is appended, what is refused, what the command line says."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cutover import metrics
from cutover.changes import user
from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.errors import DefinitionError, LakeError
from cutover.lake import journal
from cutover.lake.control import versions
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.lake.journal import Journal, SequenceConflictError
from cutover.lake.journal_rows import GateEvent
from cutover.lake.serving import serving_table
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import evidence, stage
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row, record_stage
from tests.support.history.reconciliations import record_line

DEFINITION = '''
"""A pipeline."""
from cutover.definition import Count, Fixed, Pipeline, Policy, Topic

clicks = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
    policy=Policy(runs=1),
)
'''
CLOCK = SystemClock()
COMMAND = str(Path(sys.executable).with_name("cutover"))
_RIGHTS = "-dac_override,-dac_read_search"
BOUND = ("setpriv", f"--bounding-set={_RIGHTS}", f"--inh-caps={_RIGHTS}") if os.geteuid() == 0 else ()


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "clicks.py").write_text(DEFINITION)
    return folder


@pytest.fixture
def place(settings: Settings, pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings whose home and pipelines the command line finds too."""
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(pipelines))
    return settings.model_copy(update={"pipelines": pipelines})


@pytest.fixture
def clicks(place: Settings) -> Pipeline:
    return catalogue.get(place, "clicks")


def record_move(lake: PipelineLake, name: str) -> None:
    """Append a move, as if it had been allowed."""
    record_stage(lake, name)


def test_pipeline_without_history_is_in_lambda(place: Settings, clicks: Pipeline) -> None:
    assert current_stage(PipelineLake(place, clicks)) is Stage.LAMBDA


def test_advance_without_evidence_is_refused_and_writes_nothing(place: Settings, clicks: Pipeline) -> None:
    decision = stage.move(PipelineLake(place, clicks), "advance", "because", CLOCK)

    assert (decision.allowed, read_gate_events(place, "clicks")) == (False, [])


def test_rollback_needs_no_log_and_keeps_who_why_and_hash(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "SHADOW")
    stage.move(lake, "rollback", " late burst ", CLOCK)

    row = read_gate_events(place, "clicks")[-1]
    stored_evidence = json.loads(row.evidence)
    assert (row.stage, row.event, row.why, row.sequence) == ("LAMBDA", "rolled_back", "late burst", 1)
    assert (row.who, evidence.compute_evidence_digest(stored_evidence)) == (user(), stored_evidence["hash"])


def test_evidence_holds_runs_when_the_log_is_silent(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    versions.open_or_create(lake, CLOCK)
    record_line(lake, 3)

    gate_evidence = evidence.read_evidence(lake, CLOCK.now())
    assert ([run.epoch for run in gate_evidence.runs], gate_evidence.replay) == ([3], None)


def test_move_is_dated_by_the_clock(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "KAPPA")
    time_before = CLOCK.now()
    stage.move(lake, "rollback", "drill", CLOCK)

    assert timedelta(0) <= read_gate_events(place, "clicks")[-1].at - time_before < timedelta(minutes=5)


def test_a_move_that_was_decided_before_another_one_is_refused(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "KAPPA")

    class Slow(SystemClock):
        """Clock during whose reading another process makes a move."""

        def now(self) -> datetime:
            record_move(lake, "LAMBDA")
            return super().now()

    with pytest.raises(LakeError, match="appended row 1 first"):
        stage.move(lake, "rollback", "drill", Slow())
    assert current_stage(lake) is Stage.LAMBDA


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_move_without_a_reason_is_refused(place: Settings, clicks: Pipeline, reason: str) -> None:
    with pytest.raises(DefinitionError, match="expected a reason"):
        stage.move(PipelineLake(place, clicks), "rollback", reason, CLOCK)
    assert not metrics.make_metrics_path(place, "gate_run", "clicks").exists()  # no alert TaskFailed for a typing error


@pytest.mark.quick
def test_command_refuses_with_the_list_of_what_is_missing(place: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.pipelines.is_dir()
    code = main(["gate", "clicks", "advance", "--why", "ready"])

    err = capsys.readouterr().err
    assert code == 1
    assert "LAMBDA to SHADOW is rejected" in err
    assert "runs: 0 of 1" in err


def test_command_shows_evidence_as_json(place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    record_move(PipelineLake(place, clicks), "SHADOW")
    code = main(["gate", "clicks", "show", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["stage"], answer["next"], answer["allowed"]) == (0, "SHADOW", "KAPPA", False)
    assert [row["stage"] for row in answer["history"]] == ["SHADOW"]


@pytest.mark.quick
def test_command_shows_each_condition_with_its_number_its_threshold_and_what_it_lacks(
    place: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.pipelines.is_dir()
    assert main(["gate", "clicks", "show", "--json"]) == 0
    condition = json.loads(capsys.readouterr().out)["conditions"][0]
    assert main(["gate", "clicks", "show"]) == 0
    output = capsys.readouterr().out

    fields = ("name", "is_met", "number", "threshold", "sense", "unit")
    assert [condition[name] for name in fields] == ["runs", False, 0, 1, "at least", "runs"]
    assert condition["to_pass"].startswith("1 more in a row: `cutover batch clicks`")
    assert "To pass:\n  runs: 1 more in a row" in output


def test_command_shows_a_hostile_reason_without_control_characters(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    record_move(PipelineLake(place, clicks), "SHADOW")
    assert main(["gate", "clicks", "rollback", "--why", "a\x1b[31m[red]b"]) == 0
    assert main(["gate", "clicks", "show"]) == 0

    output = capsys.readouterr().out
    assert "\x1b[31m[red]" not in output
    assert "\\x1b" in output


def test_command_shows_a_hostile_name_of_a_person_as_it_stands(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "SHADOW")
    stage.move(lake, "rollback", "drill", CLOCK, actor="eve[/bold][red]\x1b[31m\nx")

    assert main(["gate", "clicks", "show"]) == 0
    output = capsys.readouterr().out
    assert "eve[/bold][red]" in output
    assert "\x1b[31m" not in output


def test_command_names_readers_that_did_not_follow(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_move(PipelineLake(place, clicks), "SHADOW")
    monkeypatch.setattr(serving_table, "update_tables", lambda *_: ("sales",))

    assert main(["gate", "clicks", "rollback", "--why", "drill"]) == 0
    assert "sales: readers of its serving table still see what it showed before" in capsys.readouterr().err


def test_command_rolls_back_and_then_stays(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    record_move(PipelineLake(place, clicks), "SHADOW")
    codes = [main(["gate", "clicks", "rollback", "--why", "drill"]) for _ in range(2)]

    assert codes == [0, 0]
    first_line, _, second = capsys.readouterr().out.strip().splitlines()
    assert first_line == "clicks: SHADOW -> LAMBDA"
    assert second.startswith("clicks: stays in LAMBDA. Anything approved")


@pytest.mark.parametrize(("at", "to"), [("LAMBDA", "SHADOW"), ("SHADOW", "KAPPA"), ("KAPPA", "KAPPA")])
def test_command_refuses_a_way_back_that_leads_on_or_nowhere(
    place: Settings, clicks: Pipeline, at: str, to: str
) -> None:
    record_move(PipelineLake(place, clicks), at)

    assert main(["gate", "clicks", "rollback", "--why", "drill", "--to", to]) == 1
    assert [row.stage for row in read_gate_events(place, "clicks")] == [at]


@pytest.mark.parametrize("at", ["LAMBDA", "SHADOW"])
def test_a_way_back_to_where_a_pipeline_is_stops_a_move_that_had_begun(
    place: Settings, clicks: Pipeline, at: str
) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, at)
    turn = len(read_gate_events(place, "clicks"))
    (place.home / "lake" / "_control" / "versions" / "_delta_log" / f"{0:020}.json").unlink()  # a rollback needs none

    stage.roll_back_stage(lake, "late burst", CLOCK, back_to=Stage(at))

    with pytest.raises(LakeError, match="another process appended row"):
        Journal(place, "clicks", GateEvent).append(
            make_row(GateEvent, pipeline="clicks", stage="KAPPA"), expected_sequence=turn
        )
    assert current_stage(lake, way_back=True) == at
    newest = read_gate_events(place, "clicks")[-1]
    assert (newest.event, newest.why) == ("withdrawn", "late burst")


def test_a_way_back_that_others_always_overtake_is_a_failed_task(
    place: Settings, clicks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "KAPPA")

    def overtaken(*_: Any, **__: Any) -> int:
        msg = "others"
        raise SequenceConflictError(msg)

    monkeypatch.setattr(Journal, "append", overtaken)
    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(journal, "ATTEMPTS", 2)
    with pytest.raises(SequenceConflictError):
        stage.roll_back_stage(lake, "late burst", CLOCK)

    text = metrics.make_metrics_path(place, "gate_run", "clicks").read_text()
    assert 'cutover_task_failed{pipeline="clicks",task="gate"} 1' in text


def test_a_way_back_follows_a_move_that_was_made_meanwhile(
    place: Settings, clicks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, other_moves = Journal.append, ["SHADOW"]

    lake = PipelineLake(place, clicks)

    def overtaken(*words: Any, **keywords: Any) -> int:
        if other_moves:
            record_move(lake, other_moves.pop())
        return append(*words, **keywords)

    monkeypatch.setattr(Journal, "append", overtaken)
    decision = stage.roll_back_stage(lake, "late burst", CLOCK, back_to=Stage.LAMBDA)

    assert (decision.stage, decision.target) == (Stage.SHADOW, Stage.LAMBDA)
    assert current_stage(lake) is Stage.LAMBDA


@pytest.mark.parametrize(
    ("arguments", "target"), [((), "LAMBDA"), (("--to", "SHADOW"), "SHADOW"), (("--to", "LAMBDA"), "LAMBDA")]
)
def test_command_lets_batch_serve_again_from_the_last_stage(
    place: Settings, clicks: Pipeline, arguments: tuple[str, ...], target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = PipelineLake(place, clicks)
    record_move(lake, "KAPPA")

    assert main(["gate", "clicks", "rollback", "--why", "late burst", *arguments]) == 0
    assert current_stage(lake) == target
    assert "`cutover batch clicks` catches it up" in capsys.readouterr().out


@contextmanager
def held_read_only(folder: Path) -> Iterator[None]:
    """Take the right to write from a folder and all in it."""
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose rights are those of the files' modes, also where the tests run as root."""
    return subprocess.run([*BOUND, COMMAND, *words], capture_output=True, text=True, check=False)


def is_bound() -> bool:
    """Return whether commands can be kept from writing where the modes forbid it."""
    if BOUND and shutil.which(BOUND[0]) is None:
        return False
    return not BOUND or subprocess.run([*BOUND, "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not is_bound(), reason="root writes to everything here")
def test_a_lake_that_cannot_be_written_keeps_its_stage_and_tells_it(place: Settings, clicks: Pipeline) -> None:
    record_move(PipelineLake(place, clicks), "KAPPA")
    with held_read_only(place.home / "lake"):
        show_result, refused = (
            run_command("gate", "clicks", "show", "--json"),
            run_command("gate", "clicks", "rollback", "--why", "drill"),
        )

    assert (show_result.returncode, json.loads(show_result.stdout)["stage"]) == (0, "KAPPA")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "expected a place that can be written, got: [Errno 13] Permission denied" in refused.stderr
    assert "Hint: nothing was committed" in refused.stderr
    assert [row.stage for row in read_gate_events(place, "clicks")] == ["KAPPA"]
    assert main(["gate", "clicks", "rollback", "--why", "drill"]) == 0


def test_unknown_pipeline_is_one_clear_message(place: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.pipelines.is_dir()

    assert main(["gate", "nobody", "show"]) == 2
    assert "nobody" in capsys.readouterr().err
