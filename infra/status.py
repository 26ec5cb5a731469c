"""Status of an installation for `cutover status`: programs, drivers, addresses, and problems of definitions."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cutover.definition.loading import catalogue
from cutover.driver_state import list_running_drivers
from cutover.errors import CutoverError, LogError
from cutover.infra.airflow import instance
from cutover.infra.broker import server
from cutover.infra.installation import ports_path
from cutover.infra.processes import drivers
from cutover.infra.processes import ports as ports_module
from cutover.infra.processes.drivers import DetachedDriver
from cutover.infra.processes.ports import Ports
from cutover.infra.processes.supervisor import ProgramState, Supervisor
from cutover.log.options import bootstrap_servers
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationStatus:
    """Status of one installation at one moment."""

    home: Path
    programs: tuple[ProgramState, ...]
    drivers: tuple[DetachedDriver, ...]
    ports: Ports | None
    kafka: str | None  # effective address, if any
    kafka_answers: bool
    airflow: str | None
    airflow_health: dict[str, str]  # by component; empty if Airflow does not answer
    password_file: Path
    pipelines: tuple[str, ...] = ()  # names of those that load
    definitions: tuple[str, ...] = ()  # their errors, and changes since a running driver was started

    def to_json(self) -> dict[str, object]:
        """Encode `home`, `processes`, `drivers`, `definitions` and so on for `status --json`."""
        return {
            "home": str(self.home),
            "processes": [asdict(program) for program in self.programs],
            "drivers": [_encode_driver(driver) for driver in self.drivers],
            "ports": None if self.ports is None else self.ports.by_name(),
            "kafka": {"bootstrap_servers": self.kafka, "answers": self.kafka_answers},
            "airflow": {
                "address": self.airflow,
                "health": self.airflow_health,
                "password_file": str(self.password_file),
            },
            "definitions": list(self.definitions),
        }


def read_status(
    settings: Settings, *, pipelines: tuple[str, ...] = (), definitions: tuple[str, ...] = ()
) -> InstallationStatus:
    """Read the status from the supervisor, the broker, Airflow and the drivers' heartbeats; start nothing.

    Args:
        settings: Settings of the installation.
        pipelines: Names of the pipelines whose definitions load, if they are to be shown.
        definitions: Problems of definitions, if they are to be shown.
    """
    ports = ports_module.load_ports(ports_path(settings))
    programs = tuple(Supervisor(settings.home.resolve()).states())
    kafka = _find_bootstrap_servers(settings)
    has_broker = bool(settings.kafka.bootstrap_servers) or any(p.group == "kafka" and p.pid for p in programs)
    has_airflow = any(p.group == instance.GROUP and p.pid for p in programs)
    return InstallationStatus(
        home=settings.home.resolve(),
        programs=programs,
        drivers=tuple(drivers.list_drivers(settings.run_dir)),
        ports=ports,
        kafka=kafka,
        kafka_answers=has_broker and kafka is not None and server.answers(settings, kafka),
        airflow=None if ports is None else instance.format_airflow_address(ports),
        airflow_health=instance.api(settings, ports).health() if ports is not None and has_airflow else {},
        password_file=instance.passwords_file(settings),
        pipelines=pipelines,
        definitions=definitions,
    )


def check_definitions(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of valid pipelines, and problems: errors, and running drivers with another definition."""
    pipelines, errors = catalogue.scan(settings)
    problems = list(map(str, errors))
    notes: list[str] = []
    for name in list_running_drivers(settings):
        from cutover.lake.recorded_definitions import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only if a driver is running

        with suppress(CutoverError):  # a file that does not load is among the problems
            note = resolve_definition(settings, name, running=True).note
            notes += [] if note is None else [note]
    return tuple(pipelines), (*problems, *notes)


def _find_bootstrap_servers(settings: Settings) -> str | None:
    try:
        return bootstrap_servers(settings)
    except LogError:
        return None


def _encode_driver(driver: DetachedDriver) -> dict[str, object]:
    return {
        "pipeline": driver.pipeline,
        "pid": driver.identity.pid,
        "alive": driver.alive,
        "heartbeat": driver.heartbeat,
    }
