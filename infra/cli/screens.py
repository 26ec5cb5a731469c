"""Status and doctor on a terminal."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:
    from cutover.infra.doctor import Examination
    from cutover.infra.status import InstallationStatus

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


def show_status(found: "InstallationStatus") -> None:
    """Print what runs."""
    console = Console(highlight=False)
    table = Table("process", "state", "pid", "says", box=None, pad_edge=False)
    for program in found.programs:
        table.add_row(program.name, program.state, str(program.pid or ""), escape(program.detail))
    for driver in found.drivers:
        beat = driver.heartbeat or {}
        state = str(beat.get("state", "")) if driver.alive else "not running"
        said = f"epoch {beat.get('epoch')}, lag {beat.get('lag')}, {beat.get('at')}" if beat else "no heartbeat yet"
        table.add_row(f"stream of {escape(driver.pipeline)}", state, str(driver.identity.pid), escape(said))
    console.print(table if table.row_count else "Nothing runs. `cutover up` starts the broker and Airflow.")
    answer = "answers" if found.kafka_answers else "does not answer"
    console.print(f"\nKafka    {found.kafka or 'none yet'}{f'  ({answer})' if found.kafka else ''}", markup=False)
    if found.airflow is not None:
        health = ", ".join(f"{name} {word}" for name, word in found.airflow_health.items()) or "does not answer"
        console.print(f"Airflow  {found.airflow}  ({health})", markup=False)
        console.print(f"         passwords in {found.password_file}", markup=False, soft_wrap=True)
    console.print(f"Home     {found.home}", markup=False, soft_wrap=True)


def show_findings(found: "Examination") -> None:
    """Print what was looked at, then every setting."""
    console = Console(highlight=False)
    table = Table("", "thing", "found", "hint", box=None, pad_edge=False)
    for finding in found.findings:
        grade = f"[{COLOURS[finding.grade]}]{finding.grade}[/]"
        table.add_row(grade, escape(finding.thing), escape(finding.found), escape(finding.hint))
    console.print(table)
    settings = Table(Column("setting", no_wrap=True), "value", "from", "meaning", box=None, pad_edge=False)
    for row in found.settings:
        settings.add_row(row.name, escape(row.value), escape(row.source), escape(row.meaning))
    console.print()
    console.print(settings)
