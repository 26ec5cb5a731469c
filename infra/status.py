"""`cutover status`: what runs, where, and what the drivers say."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cutover.definition.loading import catalogue
from cutover.driver_state import list_living_drivers
from cutover.errors import CutoverError, LogError
from cutover.infra.airflow import instance
from cutover.infra.broker import server
from cutover.infra.processes import drivers
from cutover.infra.processes import ports as ports_module
from cutover.infra.processes.drivers import DetachedDriver
from cutover.infra.processes.ports import Ports
from cutover.infra.processes.supervisor import ProgramState, Supervisor
from cutover.infra.start import ports_path
from cutover.log.address import bootstrap_servers
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationStatus:
    """A look at one installation."""

    home: Path
    programs: tuple[ProgramState, ...]
    drivers: tuple[DetachedDriver, ...]
    ports: Ports | None
    kafka: str | None  # the address in force, if any
    kafka_answers: bool
    airflow: str | None
    airflow_health: dict[str, str]  # empty when nobody answers
    password_file: Path
    definitions: tuple[str, ...] = ()  # what is wrong with them, or changed since a living driver started

    def to_json(self) -> dict[str, object]:
        """`home`, `processes`, `drivers`, `definitions` and so on, as `status --json` prints them."""
        return {
            "home": str(self.home),
            "processes": [asdict(program) for program in self.programs],
            "drivers": [_driver(driver) for driver in self.drivers],
            "ports": None if self.ports is None else self.ports.by_name(),
            "kafka": {"bootstrap_servers": self.kafka, "answers": self.kafka_answers},
            "airflow": {
                "address": self.airflow,
                "health": self.airflow_health,
                "password_file": str(self.password_file),
            },
            "definitions": list(self.definitions),
        }


def look(settings: Settings, *, definitions: tuple[str, ...] = ()) -> InstallationStatus:
    """Return what runs now; asks the supervisor, the broker and Airflow, starts nothing.

    Args:
        settings: Of the installation.
        definitions: What `check_definitions` returned, where it is to be shown.
    """
    ports = ports_module.load(ports_path(settings))
    programs = tuple(Supervisor(settings.home.resolve()).states())
    kafka = _kafka(settings)
    asked_broker = (
        kafka if settings.kafka.bootstrap_servers or any(p.group == "kafka" and p.pid for p in programs) else None
    )
    scheduled = ports is not None and any(p.group == instance.GROUP and p.pid for p in programs)
    return InstallationStatus(
        home=settings.home.resolve(),
        programs=programs,
        drivers=tuple(drivers.list_drivers(settings.run_dir)),
        ports=ports,
        kafka=kafka,
        kafka_answers=asked_broker is not None and server.answers(settings, asked_broker),
        airflow=None if ports is None else instance.address(ports),
        airflow_health=instance.api(settings, ports).health() if ports is not None and scheduled else {},
        password_file=instance.passwords_file(settings),
        definitions=definitions,
    )


def check_definitions(settings: Settings) -> tuple[str, ...]:
    """Return what is wrong with the definitions, and which driver runs with another one than its file describes."""
    problems = [str(problem) for problem in catalogue.scan(settings)[1]]
    notes: list[str] = []
    for name in list_living_drivers(settings):
        from cutover.lake.shown_definition import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only where a driver lives

        with suppress(CutoverError):  # of a file that does not load the problems tell
            note = resolve_definition(settings, name, running=True).note
            notes += [] if note is None else [note]
    return (*problems, *notes)


def _kafka(settings: Settings) -> str | None:
    try:
        return bootstrap_servers(settings)
    except LogError:
        return None


def _driver(driver: DetachedDriver) -> dict[str, object]:
    return {
        "pipeline": driver.pipeline,
        "pid": driver.identity.pid,
        "alive": driver.alive,
        "heartbeat": driver.heartbeat,
    }
