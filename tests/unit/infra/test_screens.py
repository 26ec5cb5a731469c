"""Last line of `cutover status` and `cutover doctor`: the outcome and the next step."""

from pathlib import Path
from typing import Any, cast

import pytest

from cutover.driver_state import DetachedDriver
from cutover.infra.cli.installation import list_finding_lines, list_status_lines
from cutover.infra.doctor import Diagnosis, Examination
from cutover.infra.installation import InstallationStatus
from cutover.infra.processes.supervisor import ProgramState
from cutover.output.console import Output, render

RUNNING = ProgramState(name="kafka", group="kafka", state="RUNNING", pid=5, detail="")
FAILED = ProgramState(name="scheduler", group="airflow", state="FATAL", pid=0, detail="")
STOPPED = ProgramState(name="scheduler", group="airflow", state="STOPPED", pid=0, detail="")


class Driver:
    """A detached driver, without a process behind it."""

    heartbeat = None
    problem = None
    identity = type("Identity", (), {"pid": 7})

    def __init__(self, pipeline: str, *, alive: bool) -> None:
        """Store the fields that the screen shows."""
        self.pipeline, self.alive = pipeline, alive


def last_line(screen: str) -> str:
    """Select the last line of a screen."""
    return screen.rstrip("\n").splitlines()[-1]


@pytest.mark.parametrize(
    ("programs", "drivers", "answers", "ending"),
    [
        ((), (), False, "Running: 0 processes and 0 streams. Next: `cutover up`."),
        ((), (("flights", False),), False, "Running: 0 processes and 0 streams. Next: `cutover up`."),
        (
            (RUNNING, STOPPED),
            (),
            True,
            "Running: 1 process and 0 streams. Next: `cutover stream flights --detach`.",
        ),
        ((RUNNING, FAILED), (), True, "Next: `cutover doctor` diagnoses scheduler."),
        (
            (RUNNING,),
            (("flights", True),),
            True,
            "Running: 1 process and 1 stream. Next: `cutover watch flights`.",
        ),
        ((RUNNING,), (("flights", True),), False, "Next: `cutover doctor` diagnoses Kafka."),
        ((RUNNING,), (("ads", True), ("flights", False)), True, "Next: `cutover stream flights --detach`."),
        ((RUNNING,), (("flights", True), ("flights.stream-1", False)), True, "Next: `cutover watch flights`."),
    ],
)
def test_status_ends_in_what_runs_and_what_to_do_next(
    programs: Any, drivers: Any, answers: bool, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    installation_status = InstallationStatus(
        home=Path("home"),
        programs=programs,
        drivers=tuple(cast("DetachedDriver", Driver(name, alive=alive)) for name, alive in drivers),
        ports=None,
        kafka="127.0.0.1:1" if answers else None,
        kafka_answers=answers,
        airflow=None,
        airflow_health={},
        password_file=Path("passwords"),
        pipelines=("flights",),
    )

    render(iter([Output(lines=list_status_lines(installation_status))]))

    assert last_line(capsys.readouterr().out).endswith(ending)


@pytest.mark.parametrize(
    ("grade", "ending"),
    [
        ("ok", "1 ok, 0 note, 0 broken. Next: `cutover up`, or `cutover status` once it runs."),
        ("broken", "0 ok, 0 note, 1 broken. Next: fix what is broken, by its hint."),
    ],
)
def test_doctor_ends_in_its_count_and_what_to_do_next(
    grade: Any, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    examination = Examination(findings=(Diagnosis(thing="java", grade=grade, found="17"),), settings=())
    render(iter([Output(lines=list_finding_lines(examination))]))

    assert last_line(capsys.readouterr().out) == ending
