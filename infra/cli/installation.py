"""`cutover up`, `down`, `status`, `doctor`, and the demonstration."""

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
    sample: Annotated[list[str] | None, typer.Option("--sample", help="A further sample that gets DAGs.")] = None,
) -> Output:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import start
    from cutover.infra.airflow import instance, samples

    os.umask(0o077)
    settings = load_settings()
    enabled = samples.turn_on(settings, sample) if sample else ()
    with show_spinner("starting") as report_progress:
        running = start.up(settings, broker_only=broker_only, tell=report_progress)
    lines = [f"Kafka    {running.bootstrap}"]
    if running.airflow is not None:
        password = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
        lines.append(f"Airflow  {running.airflow}  (user {instance.ADMIN}, password {password})")
    if enabled:
        lines.append(f"Samples  {', '.join(enabled)}: Airflow shows their DAGs within half a minute.")
    return Output(document=asdict(running) | {"samples": list(enabled)}, lines=lines)


def down() -> Output:
    """Stop Airflow, the streams and the broker; leaves no process."""
    from cutover.infra import stop

    settings = load_settings()
    with show_spinner("finding running processes") as report_progress:
        stopped = stop.down(settings, tell=report_progress)
    everything = [*stopped.programs, *(f"stream of {name}" for name in stopped.drivers)]
    text = f"Stopped: {', '.join(everything)}." if everything else "Nothing was running."
    return Output(document={"stopped": everything}, lines=[text])


def show_status() -> Output:
    """Show what runs, where, and what the streams say."""
    from cutover.infra import status
    from cutover.infra.cli import screens

    settings = load_settings()
    installation = status.look(settings, definitions=status.check_definitions(settings))
    return Output(document=installation.to_json(), lines=screens.list_status_lines(installation))


def diagnose() -> Output:
    """Check this machine and show every setting, without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli import screens

    try:
        examination = doctor.examine(load_settings())
    except DefinitionError as error:  # of the settings: its hint sends people here, so the list is shown all the same
        examination = doctor.refuse_settings(error)
    return Output(
        document=examination.to_json(),
        lines=screens.list_finding_lines(examination),
        exit_code=DefinitionError.exit_code if examination.broken else 0,
    )


COMMANDS = {"up": up, "down": down, "status": show_status, "doctor": diagnose}
