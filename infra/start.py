"""`cutover up`: bring the broker and Airflow up under one supervisor, and wait until they answer."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutover import files
from cutover.clock import poll_until
from cutover.errors import CutoverError, LogError
from cutover.infra.airflow import instance
from cutover.infra.broker import server
from cutover.infra.install import jars, java
from cutover.infra.processes import family
from cutover.infra.processes import ports as ports_module
from cutover.infra.processes.ports import Ports
from cutover.infra.processes.supervisor import Program, ProgramState, Supervisor, SupervisorError
from cutover.log.reachability import find_obstacle, make_obstacle_error
from cutover.output.console import ReportProgress
from cutover.settings import Settings

BROKER = "broker"
READY_SECONDS = 240.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where things are now."""

    bootstrap: str
    airflow: str | None  # None when only the broker was asked for
    ports: Ports


def up(settings: Settings, *, broker_only: bool, tell: ReportProgress) -> Running:
    """Start what does not run yet and return when all of it answers.

    Raises:
        PortError: A port of this installation is taken.
        LogError: The broker does not come up, or the given cluster does not answer.
        SupervisorError: A process does not stay up, or the settings changed while it runs.
        CutoverError: Java or the JARs are missing.
    """
    java.require()
    with _hold_start_lock(settings.run_dir):
        ports = _start(settings, broker_only=broker_only, tell=tell)
        bootstrap = _await_broker(settings, ports, tell)
        if not broker_only:
            _await_airflow(settings, ports, tell)
        ports_module.mark_used(ports_path(settings), ports)
    return Running(bootstrap=bootstrap, airflow=None if broker_only else instance.address(ports), ports=ports)


def ports_path(settings: Settings) -> Path:
    """`ports.json` in the run folder: ports are chosen once and kept."""
    return settings.run_dir / "ports.json"


def programs(settings: Settings) -> tuple[Program, ...]:
    """Return what the supervisor looks after; no broker when the settings name a cluster."""
    if settings.kafka.bootstrap_servers:
        return instance.programs()
    home = settings.home.resolve()
    program = Program(name=BROKER, group="kafka", command=tuple(server.command(home)), stop_seconds=30)
    return (program, *instance.programs())


def _start(settings: Settings, *, broker_only: bool, tell: ReportProgress) -> Ports:
    supervisor = Supervisor(settings.home.resolve())
    own_broker = not settings.kafka.bootstrap_servers
    groups = {"kafka"} if own_broker else set()
    groups |= set() if broker_only else {instance.GROUP}
    if supervisor.identity() is None:
        # A supervisor that was killed leaves its children: they would hold the ports.
        family.stop(supervisor.leftovers(), within=20)
        supervisor.forget()
    missing = groups - _up_groups(supervisor)
    ports = ports_module.settle(ports_path(settings), needed=_port_names(missing))
    if "kafka" in missing:
        tell("preparing the broker")
        _prepare_broker(settings, ports)
    variables = instance.current_environment(settings, ports)
    instance.password(settings)  # before Airflow starts: where it finds none, it makes one and prints it into its log
    if instance.GROUP in missing and not instance.is_migrated(settings):
        tell("making Airflow's database (once, about 10 s)")
        instance.migrate(settings, variables)
    if missing:
        _launch(supervisor, programs(settings), variables)
    for group in sorted(missing, reverse=True):
        supervisor.start_group(group)
    return ports


def _up_groups(supervisor: Supervisor) -> set[str]:
    """Return the groups of which every program runs."""
    states = supervisor.states()
    return {s.group for s in states} - {s.group for s in states if not s.tried}


def _port_names(groups: set[str]) -> list[str]:
    return [*(("broker", "controller") if "kafka" in groups else ()), *(("airflow",) if "airflow" in groups else ())]


def _prepare_broker(settings: Settings, ports: Ports) -> None:
    home = settings.home.resolve()
    wrong = jars.check("kafka")
    if wrong:
        msg = "JARs of the broker are not as locked in `infra/install/kafka-jars.sha256`:\n  " + "\n  ".join(wrong[:5])
        raise CutoverError(msg + "\nHint: `make setup` fetches them.")
    server.prepare(home, ports)
    server.write_address(settings.run_dir, ports)


def _launch(supervisor: Supervisor, programs: tuple[Program, ...], variables: dict[str, str]) -> None:
    if supervisor.identity() is None:
        supervisor.launch(programs, variables)
    unknown = {p.name for p in programs} - {s.name for s in supervisor.states()}
    if unknown:
        msg = f"Supervisor of `{supervisor.home}`: expected it to know {sorted(unknown)}; other settings started it."
        raise SupervisorError(msg + "\nHint: `cutover down`, then `cutover up`.")


def _await_broker(settings: Settings, ports: Ports, tell: ReportProgress) -> str:
    bootstrap_servers = settings.kafka.bootstrap_servers
    if bootstrap_servers is None:
        tell(f"waiting for the broker at {server.address(ports)}")
        alive = _watch(Supervisor(settings.home.resolve()), "kafka")
        server.wait_ready(settings.home.resolve(), ports, within=READY_SECONDS, alive=lambda: not alive())
        return server.address(ports)
    tell(f"asking the cluster at {bootstrap_servers}")
    obstacle = find_obstacle(bootstrap_servers, settings.kafka.protocol)
    if obstacle is not None:
        raise make_obstacle_error(obstacle)
    if not server.answers(settings, bootstrap_servers):
        msg = f"Kafka at `{bootstrap_servers}` (`kafka.bootstrap_servers`): expected an answer within "
        msg += f"{settings.kafka.timeout_seconds:.0f} s, got none.\nHint: unset it and `cutover up` runs a broker."
        raise LogError(msg, runbook="KafkaUnreachable")
    return bootstrap_servers


def _await_airflow(settings: Settings, ports: Ports, tell: ReportProgress) -> None:
    client = instance.api(settings, ports)
    fallen = _watch(Supervisor(settings.home.resolve()), instance.GROUP)
    dead, waiting = list[ProgramState](), list[str]()

    def look() -> bool | None:
        nonlocal dead, waiting
        if client.is_healthy():
            return True
        health = client.health()
        waiting = [name for name, status in health.items() if status != "healthy"] if health else ["its API"]
        tell(f"waiting for Airflow at {instance.address(ports)}: {', '.join(waiting)}")
        dead = fallen()
        return False if dead else None

    if not poll_until(look, within=READY_SECONDS, every=POLL_SECONDS):
        raise SupervisorError(_not_up(settings, dead, waiting))
    instance.ensure_pool(client)


def _not_up(settings: Settings, dead: list[ProgramState], waiting: list[str]) -> str:
    logs = settings.home.resolve() / "logs"
    lines = [f"Airflow: expected it healthy within {READY_SECONDS:.0f} s, still waiting for {', '.join(waiting)}."]
    for state in dead:
        log = logs / f"{state.name}.log"
        lines.append(f"{state.name} is {state.state} ({state.detail}). Its log, `{log}`:\n{server.tail(log)}")
    return "\n".join(lines) + f"\nHint: the logs are in `{logs}`; `cutover down` stops what is left."


def _watch(supervisor: Supervisor, group: str) -> Callable[[], list[ProgramState]]:
    """Return a function that lists the programs of a group that the supervisor gave up."""
    return lambda: [s for s in supervisor.states() if s.group == group and not s.tried]


@contextmanager
def _hold_start_lock(run_dir: Path) -> Iterator[None]:
    """Hold the lock of this installation's starts: two at once would launch two supervisors."""
    files.private_folder(run_dir)
    with (run_dir / "up.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
