"""Commands `cutover up`, `down`, `status` and `doctor`."""

import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from cutover.errors import DefinitionError
from cutover.output.console import Output, show_spinner
from cutover.settings import load_settings


def up(
    *,
    broker_only: Annotated[bool, typer.Option("--broker-only", help="Start the broker without Airflow.")] = False,
    sample: Annotated[list[str] | None, typer.Option("--sample", help="Another sample to show in Airflow.")] = None,
) -> Output:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import start
    from cutover.infra.airflow import instance, samples

    os.umask(0o077)
    settings = load_settings()
    enabled = samples.turn_on(settings, sample) if sample else ()
    with show_spinner("starting") as report_progress:
        running = start.up(settings, broker_only=broker_only, report_progress=report_progress)
    lines = [f"Kafka    {running.bootstrap}"]
    if running.airflow is not None:
        password = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
        lines.append(f"Airflow  {running.airflow}  (user {instance.ADMIN}, password {password})")
    if enabled:
        lines.append(f"Samples  {', '.join(enabled)}: Airflow shows their DAGs within half a minute.")
    return Output(document=asdict(running) | {"samples": list(enabled)}, lines=lines)


def down() -> Output:
    """Stop Airflow, the streams and the broker, with all their processes."""
    from cutover.infra import stop

    settings = load_settings()
    with show_spinner("finding running processes") as report_progress:
        stopped = stop.down(settings, report_progress=report_progress)
    names = [*stopped.programs, *(f"stream of {name}" for name in stopped.drivers)]
    text = f"Stopped: {', '.join(names)}." if names else "Nothing was running."
    return Output(document={"stopped": names}, lines=[text])


def show_status() -> Output:
    """Show the running processes, their addresses, and the state of the streams."""
    from cutover.infra import status
    from cutover.infra.cli import screens

    settings = load_settings()
    installation = status.read_status(settings, definitions=status.check_definitions(settings))
    return Output(document=installation.to_json(), lines=screens.list_status_lines(installation))


def diagnose() -> Output:
    """Check this machine and show all settings without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli import screens

    try:
        examination = doctor.examine(load_settings())
    except DefinitionError as error:  # invalid settings: their hint names this command, so all settings are shown
        examination = doctor.report_invalid_settings(error)
    return Output(
        document=examination.to_json(),
        lines=screens.list_finding_lines(examination),
        exit_code=DefinitionError.exit_code if examination.broken else 0,
    )


COMMANDS = {"up": up, "down": down, "status": show_status, "doctor": diagnose}
