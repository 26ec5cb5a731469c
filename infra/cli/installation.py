"""Commands of the installation: `cutover up`, `down`, `status`, `doctor`, and a Spark cluster on this machine."""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cutover.counts import count_noun
from cutover.errors import DefinitionError
from cutover.infra import cluster
from cutover.output.console import Line, Output, Verbatim, make_table, show_spinner, styled
from cutover.settings import load_settings

if TYPE_CHECKING:
    from cutover.driver_state import DetachedDriver
    from cutover.infra.doctor import Examination
    from cutover.infra.installation import InstallationStatus

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
    yield from (f"Tables   {sentence}" for sentence in installation.own_tables)
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


def up(
    *,
    broker_only: Annotated[bool, typer.Option("--broker-only", help="Start the broker without Airflow.")] = False,
    sample: Annotated[list[str] | None, typer.Option("--sample", help="Another sample to show in Airflow.")] = None,
) -> Output:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import installation
    from cutover.infra.airflow import instance

    os.umask(0o077)
    settings = load_settings()
    enabled = instance.turn_on_samples(settings, sample) if sample else ()
    with show_spinner("starting") as report_progress:
        running = installation.start_installation(settings, broker_only=broker_only, report_progress=report_progress)
    lines = [f"Kafka    {running.bootstrap}"]
    if running.airflow is not None:
        password = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
        lines.append(f"Airflow  {running.airflow}  (user {instance.ADMIN}, password {password})")
    if enabled:
        lines.append(f"Samples  {', '.join(enabled)}: Airflow shows their DAGs within half a minute.")
    return Output(document=asdict(running) | {"samples": list(enabled)}, lines=lines)


def down() -> Output:
    """Stop Airflow, the streams and the broker, with all their processes."""
    from cutover.infra import installation

    settings = load_settings()
    with show_spinner("finding running processes") as report_progress:
        stopped = installation.stop_installation(settings, report_progress=report_progress)
    names = [*stopped.programs, *(f"stream of {name}" for name in stopped.drivers)]
    text = f"Stopped: {', '.join(names)}." if names else "Nothing was running."
    return Output(document={"stopped": names}, lines=[text])


def show_status() -> Output:
    """Show the running processes, their addresses, and the state of the streams."""
    from cutover.infra import installation
    from cutover.infra.cli.installation import list_status_lines

    settings = load_settings()
    pipelines, problems = installation.check_definitions(settings)
    status = installation.read_status(settings, pipelines=pipelines, definitions=problems)
    return Output(document=status.to_json(), lines=list_status_lines(status))


def diagnose() -> Output:
    """Check this machine and show all settings without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli.installation import list_finding_lines

    try:
        examination = doctor.examine(load_settings())
    except DefinitionError as error:  # invalid settings: their hint names this command, so all settings are shown
        examination = doctor.report_invalid_settings(error)
    return Output(
        document=examination.to_json(),
        lines=list_finding_lines(examination),
        exit_code=DefinitionError.exit_code if examination.broken else 0,
    )


def run_cluster(
    *,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores per worker.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory per worker, in Spark's notation.")] = "1500m",
) -> Iterator[Output]:
    """Run a Spark master and workers on loopback until Ctrl-C."""
    folder = load_settings().home.resolve() / "cluster"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        cluster.running(folder, workers=workers, cores=cores, memory=memory) as running,
    ):
        yield Output(
            document={"master": running.master, "conf": dict(running.conf())},
            lines=[Verbatim(_format_cluster(running, workers, memory, str(folder)))],
        )
        while True:
            signal.pause()


def _format_cluster(running: cluster.Cluster, workers: int, memory: str, folder: str) -> str:
    conf = "\n".join(f'"{key}" = "{value}"' for key, value in running.conf().items())
    return (
        f"Spark cluster of {workers} workers ({running.cores} core, {memory} each): {running.master}\n"
        f"Logs in {folder}; Ctrl-C stops it. In cutover.toml:\n"
        f'[spark]\nmaster = "{running.master}"\n\n[spark.conf]\n{conf}\n'
    )


COMMANDS = {
    "up": up,
    "down": down,
    "status": show_status,
    "doctor": diagnose,
    "cluster": run_cluster,
}
