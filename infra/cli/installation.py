"""Commands of the installation: `cutover up`, `down`, `status`, `doctor`, and a Spark cluster on this machine."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from cutover.errors import DefinitionError
from cutover.infra import cluster
from cutover.output.console import Output, Verbatim, show_spinner
from cutover.settings import load_settings


def up(
    *,
    broker_only: Annotated[bool, typer.Option("--broker-only", help="Start the broker without Airflow.")] = False,
    sample: Annotated[list[str] | None, typer.Option("--sample", help="Another sample to show in Airflow.")] = None,
) -> Output:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import installation
    from cutover.infra.airflow import instance, samples

    os.umask(0o077)
    settings = load_settings()
    enabled = samples.turn_on(settings, sample) if sample else ()
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
    from cutover.infra import status
    from cutover.infra.cli.screens import list_status_lines

    settings = load_settings()
    pipelines, problems = status.check_definitions(settings)
    installation = status.read_status(settings, pipelines=pipelines, definitions=problems)
    return Output(document=installation.to_json(), lines=list_status_lines(installation))


def diagnose() -> Output:
    """Check this machine and show all settings without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli.screens import list_finding_lines

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
