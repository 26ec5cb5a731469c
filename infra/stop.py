"""`cutover down`: stop Airflow, its tasks, the stream drivers and the broker, in this order, and leave no process."""

from dataclasses import dataclass

from cutover.errors import CutoverError
from cutover.infra.airflow import instance
from cutover.infra.processes import drivers
from cutover.infra.processes import family as processes
from cutover.infra.processes.supervisor import Supervisor
from cutover.output.console import ReportProgress
from cutover.process import Identity
from cutover.settings import Settings

DRIVER_SECONDS = 30.0
TASK_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What was running and no longer is."""

    programs: tuple[str, ...]
    drivers: tuple[str, ...]


def down(settings: Settings, *, tell: ReportProgress) -> Stopped:
    """Stop everything of this installation; does nothing when nothing runs.

    Airflow goes first, so that it restarts no driver; the broker last, so that drivers can finish their epoch.

    Raises:
        CutoverError: A process outlived even SIGKILL (it hangs in the kernel).
    """
    supervisor = Supervisor(settings.home.resolve())
    running = tuple(s.name for s in supervisor.states() if s.tried) if supervisor.identity() else ()
    living = [driver for driver in drivers.list_drivers(settings.run_dir) if driver.alive]
    _stop_airflow(supervisor, tell)
    survivors = _stop_drivers(living, tell)
    if supervisor.identity() is not None:
        tell("stopping the broker")
    supervisor.shut_down()
    survivors += processes.stop(supervisor.leftovers(), within=TASK_SECONDS)
    if survivors:
        pids = ", ".join(str(s.pid) for s in survivors)
        msg = f"Processes of `{settings.home}`: expected none after SIGKILL, got pids {pids}."
        raise CutoverError(msg + "\nHint: `ps -o pid,stat,wchan -p PID` says where one hangs.")
    supervisor.forget()
    return Stopped(programs=running, drivers=tuple(driver.pipeline for driver in living))


def _stop_airflow(supervisor: Supervisor, tell: ReportProgress) -> None:
    identity = supervisor.identity()
    if identity is None:  # it was killed: what it left would restart the drivers
        processes.stop(supervisor.leftovers(), within=TASK_SECONDS)
        return
    tell("stopping Airflow")
    supervisor.stop_group(instance.GROUP)
    # A task runs in a process group of its own, so it may outlive its scheduler.
    family_pids = {member.pid for member in processes.family(identity)}
    processes.stop([p for p in supervisor.leftovers() if p.pid not in family_pids], within=TASK_SECONDS)


def _stop_drivers(living: list[drivers.DetachedDriver], tell: ReportProgress) -> list[Identity]:
    survivors: list[Identity] = []
    for driver in living:
        tell(f"stopping the stream of {driver.pipeline} (pid {driver.identity.pid})")
        family = processes.family(driver.identity)
        # The leader first: it ends its epoch and its own JVM; then whatever of its group is left.
        processes.stop([driver.identity], within=DRIVER_SECONDS)
        survivors += processes.stop(family, within=5)
    return survivors
