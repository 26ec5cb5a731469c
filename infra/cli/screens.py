"""Output of `cutover status` and `cutover doctor`."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cutover.counts import count_noun
from cutover.output.console import Line, make_table, styled

if TYPE_CHECKING:
    from cutover.infra.doctor import Examination
    from cutover.infra.processes.drivers import DetachedDriver
    from cutover.infra.status import InstallationStatus

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


def list_status_lines(installation: "InstallationStatus") -> Iterator[Line]:
    """Yield the processes and drivers, their addresses, and the next step."""
    rows = [
        *((program.name, program.state, program.pid or "", program.detail) for program in installation.programs),
        *map(_make_driver_cells, installation.drivers),
    ]
    if rows:
        yield make_table(("process", "state", "pid", "detail"), rows)
        yield ""
    answer = "answers" if installation.kafka_answers else "does not answer"
    yield f"Kafka    {installation.kafka or 'none yet'}{f'  ({answer})' if installation.kafka else ''}"
    if installation.airflow is not None:
        health = ", ".join(f"{name} {word}" for name, word in installation.airflow_health.items()) or "does not answer"
        yield f"Airflow  {installation.airflow}  ({health})"
        yield f"         passwords in {installation.password_file}"
    yield f"Home     {installation.home}"
    for text in installation.definitions:
        first_line, *further = text.splitlines()
        yield styled(("Definition", "yellow"), f"  {first_line}")
        yield from (f"            {line}" for line in further)
    yield _describe_next_step(installation)


def _make_driver_cells(driver: "DetachedDriver") -> tuple[object, ...]:
    beat = driver.heartbeat or {}
    state = str(beat.get("state", "unknown")) if driver.alive else "not running"
    text = "no heartbeat yet"
    if beat:
        epoch = "no epoch yet" if beat.get("epoch") is None else f"epoch {beat['epoch']}"
        lag = "unknown" if beat.get("lag") is None else beat["lag"]
        text = f"{epoch}, lag {lag}, {beat.get('at')}"
    return f"stream of {driver.pipeline}", state, driver.identity.pid, driver.problem or text


def _describe_next_step(installation: "InstallationStatus") -> str:
    """Describe the number of running processes and the next step, in one line."""
    running, alive = [p for p in installation.programs if p.pid], [d for d in installation.drivers if d.alive]
    message = f"Running: {count_noun(len(running), 'process')} and {count_noun(len(alive), 'stream')}."
    failed = [p.name for p in installation.programs if p.state == "FATAL" or (p.is_active and not p.pid)]
    dead = [d.pipeline for d in installation.drivers if not d.alive and "." not in d.pipeline]  # a replay's has one
    if failed or (alive and not installation.kafka_answers):
        return f"{message} Next: `cutover doctor` diagnoses {', '.join(failed) or 'Kafka'}."
    if installation.definitions:
        return f"{message} Next: `cutover lint` checks the definitions."
    if not running and not installation.kafka_answers:
        return f"{message} Next: `cutover up`."
    if dead:
        return f"{message} Next: `cutover stream {dead[0]} --detach`."
    if alive:
        return f"{message} Next: `cutover watch {alive[0].pipeline}`."
    start = (f"`cutover stream {name} --detach`" for name in installation.pipelines)
    return f"{message} Next: {next(start, '`cutover init NAME --from FILE` writes a definition')}."


def list_finding_lines(examination: "Examination") -> Iterator[Line]:
    """Yield all findings, all settings, and the next step."""
    yield make_table(
        ("", "thing", "found", "hint"),
        (
            (styled((finding.grade, COLOURS[finding.grade])), finding.thing, finding.found, finding.hint)
            for finding in examination.findings
        ),
    )
    yield ""
    yield make_table(
        ("setting", "value", "from", "meaning"),
        ((row.name, row.value, row.source, row.meaning) for row in examination.settings),
        no_wrap=("setting",),
    )
    counts = Counter[str](finding.grade for finding in examination.findings)
    counts_text = ", ".join(f"{counts[grade]} {grade}" for grade in COLOURS)
    next_step = (
        "fix what is broken, by its hint" if examination.broken else "`cutover up`, or `cutover status` once it runs"
    )
    yield ""
    yield f"{counts_text}. Next: {next_step}."
