"""Status and doctor on a terminal."""

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from cutover.output.markup import literal_text

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
        state = str(beat.get("state", "unknown")) if driver.alive else "not running"
        said = f"epoch {beat.get('epoch')}, lag {beat.get('lag')}, {beat.get('at')}" if beat else "no heartbeat yet"
        said = said if driver.problem is None else driver.problem
        table.add_row(f"stream of {escape(driver.pipeline)}", state, str(driver.identity.pid), escape(said))
    if table.row_count:
        console.print(table, end="\n\n")
    answer = "answers" if found.kafka_answers else "does not answer"
    console.print(f"Kafka    {found.kafka or 'none yet'}{f'  ({answer})' if found.kafka else ''}", markup=False)
    if found.airflow is not None:
        health = ", ".join(f"{name} {word}" for name, word in found.airflow_health.items()) or "does not answer"
        console.print(f"Airflow  {found.airflow}  ({health})", markup=False)
        console.print(f"         passwords in {found.password_file}", markup=False, soft_wrap=True)
    console.print(f"Home     {found.home}", markup=False, soft_wrap=True)
    for text in found.definitions:
        first, *further = map(literal_text, text.splitlines())
        console.print(f"[yellow]Definition[/]  {first}", soft_wrap=True)
        for line in further:
            console.print(f"            {line}", soft_wrap=True)
    console.print(_say_running(found), markup=False, soft_wrap=True)


def _say_running(found: "InstallationStatus") -> str:
    """Return what runs, and what to do next, in one line."""
    running, alive = [p for p in found.programs if p.pid], [d for d in found.drivers if d.alive]
    said = f"{len(running)} process(es) and {len(alive)} stream(s) run."
    failed = [p.name for p in found.programs if p.state == "FATAL" or (p.tried and not p.pid)]
    dead = [d.pipeline for d in found.drivers if not d.alive and "." not in d.pipeline]  # a replay's has one
    if failed or (alive and not found.kafka_answers):
        return f"{said} Next: `cutover doctor` says what is wrong with {', '.join(failed) or 'Kafka'}."
    if found.definitions:
        return f"{said} Next: `cutover lint` checks the definitions."
    if not running and not found.kafka_answers:
        return f"{said} Next: `cutover up`."
    if dead:
        return f"{said} Next: `cutover stream {dead[0]} --detach`."
    if alive:
        return f"{said} Next: `cutover watch {alive[0].pipeline}`."
    return f"{said} Next: `cutover stream NAME --detach`."


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
    counts = Counter[str](finding.grade for finding in found.findings)
    said = ", ".join(f"{counts[grade]} {grade}" for grade in COLOURS)
    asked = "mend what is broken, by its hint" if found.broken else "`cutover up`, or `cutover status` once it runs"
    console.print(f"\n{said}. Next: {asked}.")
