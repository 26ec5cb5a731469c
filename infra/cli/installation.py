"""`cutover up`, `down`, `status`, `doctor`, and the demonstration."""

import json
import os
import sys
from typing import Annotated

import typer

from cutover.errors import DefinitionError
from cutover.settings import load_settings

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def up(
    *,
    broker_only: Annotated[bool, typer.Option("--broker-only", help="Start the broker without Airflow.")] = False,
    sample: Annotated[list[str] | None, typer.Option("--sample", help="A further sample that gets DAGs.")] = None,
) -> None:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import start
    from cutover.infra.airflow import instance, samples
    from cutover.infra.progress import progress

    os.umask(0o077)
    settings = load_settings()
    enabled = samples.turn_on(settings, sample) if sample else ()
    with progress("starting") as tell:
        running = start.up(settings, broker_only=broker_only, tell=tell)
    sys.stdout.write(f"Kafka    {running.bootstrap}\n")
    if running.airflow is not None:
        password = instance.password(settings) if sys.stdout.isatty() else f"in {instance.passwords_file(settings)}"
        sys.stdout.write(f"Airflow  {running.airflow}  (user {instance.ADMIN}, password {password})\n")
    if enabled:
        sys.stdout.write(f"Samples  {', '.join(enabled)}: Airflow shows their DAGs within half a minute.\n")


def down() -> None:
    """Stop Airflow, the streams and the broker; leaves no process."""
    from cutover.infra import stop
    from cutover.infra.progress import progress

    settings = load_settings()
    with progress("looking for what runs") as tell:
        stopped = stop.down(settings, tell=tell)
    everything = [*stopped.programs, *(f"stream of {name}" for name in stopped.drivers)]
    sys.stdout.write(f"Stopped: {', '.join(everything)}.\n" if everything else "Nothing was running.\n")


def show_status(*, as_json: AsJson = False) -> None:
    """Show what runs, where, and what the streams say."""
    from cutover.infra import status
    from cutover.infra.cli import screens

    settings = load_settings()
    installation = status.look(settings, definitions=status.check_definitions(settings))
    if as_json:
        sys.stdout.write(json.dumps(installation.to_json(), indent=2) + "\n")
    else:
        screens.show_status(installation)


def diagnose(*, as_json: AsJson = False) -> None:
    """Check this machine and show every setting, without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli import screens

    try:
        examination = doctor.examine(load_settings())
    except DefinitionError as error:  # of the settings: its hint sends people here, so the list is shown all the same
        examination = doctor.refuse_settings(error)
    if as_json:
        sys.stdout.write(json.dumps(examination.to_json(), indent=2) + "\n")
    else:
        screens.show_findings(examination)
    if examination.broken:
        raise typer.Exit(2)


COMMANDS = {"up": up, "down": down, "status": show_status, "doctor": diagnose}
