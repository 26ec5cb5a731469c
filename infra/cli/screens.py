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


def show_status(installation: "InstallationStatus") -> None:
    """Print what runs."""
    console = Console(highlight=False)
    table = Table("process", "state", "pid", "says", box=None, pad_edge=False)
    for program in installation.programs:
        table.add_row(program.name, program.state, str(program.pid or ""), escape(program.detail))
    for driver in installation.drivers:
        beat = driver.heartbeat or {}
        state = str(beat.get("state", "unknown")) if driver.alive else "not running"
        state_text = (
            f"epoch {beat.get('epoch')}, lag {beat.get('lag')}, {beat.get('at')}" if beat else "no heartbeat yet"
        )
        state_text = state_text if driver.problem is None else driver.problem
        table.add_row(f"stream of {escape(driver.pipeline)}", state, str(driver.identity.pid), escape(state_text))
    if table.row_count:
        console.print(table, end="\n\n")
    answer = "answers" if installation.kafka_answers else "does not answer"
    console.print(
        f"Kafka    {installation.kafka or 'none yet'}{f'  ({answer})' if installation.kafka else ''}", markup=False
    )
    if installation.airflow is not None:
        health = ", ".join(f"{name} {word}" for name, word in installation.airflow_health.items()) or "does not answer"
        console.print(f"Airflow  {installation.airflow}  ({health})", markup=False)
        console.print(f"         passwords in {installation.password_file}", markup=False, soft_wrap=True)
    console.print(f"Home     {installation.home}", markup=False, soft_wrap=True)
    for text in installation.definitions:
        first_line, *further = map(literal_text, text.splitlines())
        console.print(f"[yellow]Definition[/]  {first_line}", soft_wrap=True)
        for line in further:
            console.print(f"            {line}", soft_wrap=True)
    console.print(_say_running(installation), markup=False, soft_wrap=True)


def _say_running(installation: "InstallationStatus") -> str:
    """Return what runs, and what to do next, in one line."""
    running, alive = [p for p in installation.programs if p.pid], [d for d in installation.drivers if d.alive]
    message = f"{len(running)} process(es) and {len(alive)} stream(s) run."
    failed = [p.name for p in installation.programs if p.state == "FATAL" or (p.tried and not p.pid)]
    dead = [d.pipeline for d in installation.drivers if not d.alive and "." not in d.pipeline]  # a replay's has one
    if failed or (alive and not installation.kafka_answers):
        return f"{message} Next: `cutover doctor` says what is wrong with {', '.join(failed) or 'Kafka'}."
    if installation.definitions:
        return f"{message} Next: `cutover lint` checks the definitions."
    if not running and not installation.kafka_answers:
        return f"{message} Next: `cutover up`."
    if dead:
        return f"{message} Next: `cutover stream {dead[0]} --detach`."
    if alive:
        return f"{message} Next: `cutover watch {alive[0].pipeline}`."
    return f"{message} Next: `cutover stream NAME --detach`."


def show_findings(examination: "Examination") -> None:
    """Print what was looked at, then every setting."""
    console = Console(highlight=False)
    table = Table("", "thing", "found", "hint", box=None, pad_edge=False)
    for finding in examination.findings:
        grade = f"[{COLOURS[finding.grade]}]{finding.grade}[/]"
        table.add_row(grade, escape(finding.thing), escape(finding.found), escape(finding.hint))
    console.print(table)
    settings = Table(Column("setting", no_wrap=True), "value", "from", "meaning", box=None, pad_edge=False)
    for row in examination.settings:
        settings.add_row(row.name, escape(row.value), escape(row.source), escape(row.meaning))
    console.print()
    console.print(settings)
    counts = Counter[str](finding.grade for finding in examination.findings)
    counts_text = ", ".join(f"{counts[grade]} {grade}" for grade in COLOURS)
    next_step = (
        "mend what is broken, by its hint" if examination.broken else "`cutover up`, or `cutover status` once it runs"
    )
    console.print(f"\n{counts_text}. Next: {next_step}.")
