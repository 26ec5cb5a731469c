"""Start, stop and status of the installation: broker, Airflow and drivers, in an order in which nothing is lost.

`cutover up` starts the broker and Airflow under one supervisor and waits until they answer. `cutover down` stops
Airflow, its tasks, the stream drivers and the broker, in this order. `cutover status` shows programs, drivers,
addresses, and problems of definitions.
"""

import contextlib
import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cutover import driver_state, files
from cutover.clock import poll_until
from cutover.definition.loading import catalogue
from cutover.definition.model.batch_job import find_batch_job
from cutover.driver_state import DetachedDriver, list_running_drivers
from cutover.errors import CutoverError, LogError
from cutover.infra.airflow import instance
from cutover.infra.broker import server
from cutover.infra.install import jars
from cutover.infra.processes import family
from cutover.infra.processes.supervisor import (
    Ports,
    Program,
    ProgramState,
    Supervisor,
    SupervisorError,
    choose_ports_for_start,
    load_ports,
    mark_ports_used,
)
from cutover.log.options import bootstrap_servers
from cutover.log.reachability import find_obstacle, make_obstacle_error
from cutover.output.console import ReportProgress
from cutover.pipeline_lake import PipelineLake
from cutover.process import Identity
from cutover.settings import Settings

BROKER = "broker"
READY_SECONDS = 240.0
POLL_SECONDS = 0.5

DRIVER_SECONDS = 30.0
TASK_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Addresses and ports of a running installation."""

    bootstrap: str
    airflow: str | None  # None if only the broker was started
    ports: Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Programs and drivers that were stopped."""

    programs: tuple[str, ...]
    drivers: tuple[str, ...]


def start_installation(settings: Settings, *, broker_only: bool, report_progress: ReportProgress) -> Running:
    """Start all programs that do not run, and wait until they answer.

    Raises:
        PortError: A port of this installation is in use by another program.
        LogError: The broker does not start, or the configured cluster does not answer.
        SupervisorError: A process keeps failing, or the settings changed while the supervisor is running.
        CutoverError: Java or the JARs are missing.
    """
    jars.require_java()
    with _lock_starts(settings.run_dir):
        ports = _start(settings, broker_only=broker_only, report_progress=report_progress)
        bootstrap = _wait_for_broker(settings, ports, report_progress)
        if not broker_only:
            _wait_for_airflow(settings, ports, report_progress)
        mark_ports_used(ports_path(settings), ports)
    return Running(
        bootstrap=bootstrap, airflow=None if broker_only else instance.format_airflow_address(ports), ports=ports
    )


def ports_path(settings: Settings) -> Path:
    """Return the path of `ports.json`, which stores the ports that were chosen at the first start."""
    return settings.run_dir / "ports.json"


def list_programs(settings: Settings) -> tuple[Program, ...]:
    """List the programs of the supervisor; the broker is left out if the settings name a cluster."""
    if settings.kafka.bootstrap_servers:
        return instance.list_airflow_programs()
    home = settings.home.resolve()
    program = Program(name=BROKER, group="kafka", command=tuple(server.make_broker_command(home)), stop_seconds=30)
    return (program, *instance.list_airflow_programs())


def _start(settings: Settings, *, broker_only: bool, report_progress: ReportProgress) -> Ports:
    supervisor = Supervisor(settings.home.resolve())
    own_broker = not settings.kafka.bootstrap_servers
    groups = {"kafka"} if own_broker else set()
    groups |= set() if broker_only else {instance.GROUP}
    if supervisor.identity() is None:
        # The children of a killed supervisor are still running and use the ports.
        family.stop(supervisor.leftovers(), timeout=20)
        supervisor.delete_record()
    missing = groups - _find_running_groups(supervisor)
    ports = choose_ports_for_start(ports_path(settings), names=_port_names(missing))
    if "kafka" in missing:
        report_progress("preparing the broker")
        _prepare_broker(settings, ports)
    variables = instance.current_environment(settings, ports)
    instance.password(settings)  # before Airflow starts: without a password, it creates one and prints it into its log
    if instance.GROUP in missing and not instance.is_migrated(settings):
        report_progress("creating Airflow's database (once, about 10 s)")
        instance.migrate(settings, variables)
    if missing:
        _launch(supervisor, list_programs(settings), variables)
    for group in sorted(missing, reverse=True):
        supervisor.start_group(group)
    return ports


def _find_running_groups(supervisor: Supervisor) -> set[str]:
    """Return the groups whose programs all run or are being restarted."""
    states = supervisor.states()
    return {s.group for s in states} - {s.group for s in states if not s.is_active}


def _port_names(groups: set[str]) -> list[str]:
    return [*(("broker", "controller") if "kafka" in groups else ()), *(("airflow",) if "airflow" in groups else ())]


def _prepare_broker(settings: Settings, ports: Ports) -> None:
    home = settings.home.resolve()
    problems = jars.find_problems("kafka")
    if problems:
        msg = "JARs of the broker differ from `infra/install/kafka-jars.sha256`:\n  " + "\n  ".join(problems[:5])
        raise CutoverError(msg + "\nHint: `make setup` fetches them.")
    server.prepare_broker(home, ports)
    server.write_address(settings.run_dir, ports)


def _launch(supervisor: Supervisor, programs: tuple[Program, ...], variables: dict[str, str]) -> None:
    if supervisor.identity() is None:
        supervisor.launch(programs, variables)
    unknown = {p.name for p in programs} - {s.name for s in supervisor.states()}
    if unknown:
        msg = f"Supervisor of `{supervisor.home}`: expected the programs {sorted(unknown)}, "
        msg += "got a supervisor that was started with other settings."
        raise SupervisorError(msg + "\nHint: `cutover down`, then `cutover up`.")


def _wait_for_broker(settings: Settings, ports: Ports, report_progress: ReportProgress) -> str:
    bootstrap_servers = settings.kafka.bootstrap_servers
    if bootstrap_servers is None:
        report_progress(f"waiting for the broker at {server.format_broker_address(ports)}")
        supervisor = Supervisor(settings.home.resolve())
        server.wait_ready(
            settings.home.resolve(),
            ports,
            timeout=READY_SECONDS,
            is_alive=lambda: not _list_failed(supervisor, "kafka"),
        )
        return server.format_broker_address(ports)
    report_progress(f"connecting to the cluster at {bootstrap_servers}")
    obstacle = find_obstacle(bootstrap_servers, settings.kafka.protocol)
    if obstacle is not None:
        raise make_obstacle_error(obstacle)
    if not server.answers(settings, bootstrap_servers):
        msg = f"Kafka at `{bootstrap_servers}` (`kafka.bootstrap_servers`): expected an answer within "
        msg += f"{settings.kafka.timeout_seconds:.0f} s, got none.\nHint: unset it and `cutover up` runs a broker."
        raise LogError(msg, runbook="KafkaUnreachable")
    return bootstrap_servers


def _wait_for_airflow(settings: Settings, ports: Ports, report_progress: ReportProgress) -> None:
    client = instance.api(settings, ports)
    supervisor = Supervisor(settings.home.resolve())
    failed, pending = list[ProgramState](), list[str]()

    def is_healthy() -> bool | None:
        nonlocal failed, pending
        if client.is_healthy():
            return True
        health = client.health()
        pending = [name for name, status in health.items() if status != "healthy"] if health else ["its API"]
        report_progress(f"waiting for Airflow at {instance.format_airflow_address(ports)}: {', '.join(pending)}")
        failed = _list_failed(supervisor, instance.GROUP)
        return False if failed else None

    if not poll_until(is_healthy, timeout=READY_SECONDS, interval=POLL_SECONDS):
        raise SupervisorError(_describe_failure(settings, failed, pending))
    instance.ensure_pool(client)


def _describe_failure(settings: Settings, failed: list[ProgramState], pending: list[str]) -> str:
    logs = settings.home.resolve() / "logs"
    lines = [f"Airflow: expected it healthy within {READY_SECONDS:.0f} s, still waiting for {', '.join(pending)}."]
    for state in failed:
        log = logs / f"{state.name}.log"
        lines.append(f"{state.name} is {state.state} ({state.detail}). Its log, `{log}`:\n{server.tail(log)}")
    return "\n".join(lines) + f"\nHint: the logs are in `{logs}`; `cutover down` stops all remaining processes."


def _list_failed(supervisor: Supervisor, group: str) -> list[ProgramState]:
    """List the programs of a group that the supervisor no longer restarts."""
    return [state for state in supervisor.states() if state.group == group and not state.is_active]


@contextmanager
def _lock_starts(run_dir: Path) -> Iterator[None]:
    """Lock the start of this installation, because parallel starts would launch two supervisors."""
    files.make_private_folder(run_dir)
    with (run_dir / "up.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stop_installation(settings: Settings, *, report_progress: ReportProgress) -> Stopped:
    """Stop all processes of this installation.

    Airflow is stopped first, so that it restarts no driver; the broker last, so that drivers can commit their epoch.

    Raises:
        CutoverError: A process survived SIGKILL, because it hangs in the kernel.
    """
    supervisor = Supervisor(settings.home.resolve())
    running: tuple[str, ...] = ()
    with contextlib.suppress(SupervisorError):  # it is ending, or has ended just now
        running = tuple(state.name for state in supervisor.states() if state.is_active)
    running_drivers = [driver for driver in driver_state.list_drivers(settings.run_dir) if driver.alive]
    _stop_airflow(supervisor, report_progress)
    survivors = _stop_drivers(running_drivers, report_progress)
    if supervisor.identity() is not None:
        report_progress("stopping the broker")
    supervisor.shut_down()
    survivors += family.stop(supervisor.leftovers(), timeout=TASK_SECONDS)
    if survivors:
        pids = ", ".join(str(s.pid) for s in survivors)
        msg = f"Processes of `{settings.home}`: expected none after SIGKILL, got pids {pids}."
        raise CutoverError(msg + "\nHint: `ps -o pid,stat,wchan -p PID` shows where a process hangs.")
    supervisor.delete_record()
    return Stopped(programs=running, drivers=tuple(driver.pipeline for driver in running_drivers))


def _stop_airflow(supervisor: Supervisor, report_progress: ReportProgress) -> None:
    identity = supervisor.identity()
    if identity is None:  # it was killed, and its remaining children would restart the drivers
        family.stop(supervisor.leftovers(), timeout=TASK_SECONDS)
        return
    report_progress("stopping Airflow")
    supervisor.stop_group(instance.GROUP)
    # A task runs in a separate process group, so it may outlive the scheduler.
    family_pids = {member.pid for member in family.family(identity)}
    family.stop([p for p in supervisor.leftovers() if p.pid not in family_pids], timeout=TASK_SECONDS)


def _stop_drivers(
    running_drivers: list[driver_state.DetachedDriver], report_progress: ReportProgress
) -> list[Identity]:
    """Stop drivers; return their processes that survived SIGKILL."""
    survivors: list[Identity] = []
    for driver in running_drivers:
        report_progress(f"stopping the stream of {driver.pipeline} (pid {driver.identity.pid})")
        members = family.family(driver.identity)
        # The driver first, which commits its epoch and ends its JVM; then the rest of its process group.
        family.stop([driver.identity], timeout=DRIVER_SECONDS)
        survivors += family.stop(members, timeout=5)
    return survivors


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
    own_tables: tuple[str, ...] = ()  # of a team's own jobs: which of them people read now, a sentence a pipeline

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
            "own_tables": list(self.own_tables),
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
    ports = load_ports(ports_path(settings))
    programs = tuple(Supervisor(settings.home.resolve()).states())
    kafka = _find_bootstrap_servers(settings)
    has_broker = bool(settings.kafka.bootstrap_servers) or any(p.group == "kafka" and p.pid for p in programs)
    has_airflow = any(p.group == instance.GROUP and p.pid for p in programs)
    return InstallationStatus(
        home=settings.home.resolve(),
        programs=programs,
        drivers=tuple(driver_state.list_drivers(settings.run_dir)),
        ports=ports,
        kafka=kafka,
        kafka_answers=has_broker and kafka is not None and server.answers(settings, kafka),
        airflow=None if ports is None else instance.format_airflow_address(ports),
        airflow_health=instance.api(settings, ports).health() if ports is not None and has_airflow else {},
        password_file=instance.passwords_file(settings),
        pipelines=pipelines,
        definitions=definitions,
        own_tables=tuple(_list_own_tables(settings, pipelines)),
    )


def _list_own_tables(settings: Settings, names: Iterable[str]) -> Iterator[str]:
    """Yield which tables of a team's own jobs people read, a sentence for each pipeline that has such a job."""
    for name in names:
        pipeline = catalogue.get(settings, name)
        if pipeline.stream is None and find_batch_job(pipeline.batch) is None:
            continue
        from cutover.lake.control.served import read_own_tables  # noqa: PLC0415 -- brings deltalake: only for such jobs

        yield f"{name}: {read_own_tables(PipelineLake(settings, pipeline))}"


def check_definitions(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of valid pipelines, and problems: errors, and running drivers with another definition."""
    pipelines, errors = catalogue.scan(settings)
    problems = list(map(str, errors))
    notes: list[str] = []
    for name in list_running_drivers(settings):
        from cutover.lake.shown_definition import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only if a driver is running

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
