"""Stop of Airflow, its tasks, the stream drivers and the broker, in this order, for `cutover down`."""

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
    """Programs and drivers that were stopped."""

    programs: tuple[str, ...]
    drivers: tuple[str, ...]


def down(settings: Settings, *, report_progress: ReportProgress) -> Stopped:
    """Stop all processes of this installation.

    Airflow is stopped first, so that it restarts no driver; the broker last, so that drivers can commit their epoch.

    Raises:
        CutoverError: A process survived SIGKILL, because it hangs in the kernel.
    """
    supervisor = Supervisor(settings.home.resolve())
    running = tuple(s.name for s in supervisor.states() if s.is_active) if supervisor.identity() else ()
    running_drivers = [driver for driver in drivers.list_drivers(settings.run_dir) if driver.alive]
    _stop_airflow(supervisor, report_progress)
    survivors = _stop_drivers(running_drivers, report_progress)
    if supervisor.identity() is not None:
        report_progress("stopping the broker")
    supervisor.shut_down()
    survivors += processes.stop(supervisor.leftovers(), timeout=TASK_SECONDS)
    if survivors:
        pids = ", ".join(str(s.pid) for s in survivors)
        msg = f"Processes of `{settings.home}`: expected none after SIGKILL, got pids {pids}."
        raise CutoverError(msg + "\nHint: `ps -o pid,stat,wchan -p PID` shows where a process hangs.")
    supervisor.delete_record()
    return Stopped(programs=running, drivers=tuple(driver.pipeline for driver in running_drivers))


def _stop_airflow(supervisor: Supervisor, report_progress: ReportProgress) -> None:
    identity = supervisor.identity()
    if identity is None:  # it was killed, and its remaining children would restart the drivers
        processes.stop(supervisor.leftovers(), timeout=TASK_SECONDS)
        return
    report_progress("stopping Airflow")
    supervisor.stop_group(instance.GROUP)
    # A task runs in a separate process group, so it may outlive the scheduler.
    family_pids = {member.pid for member in processes.family(identity)}
    processes.stop([p for p in supervisor.leftovers() if p.pid not in family_pids], timeout=TASK_SECONDS)


def _stop_drivers(running_drivers: list[drivers.DetachedDriver], report_progress: ReportProgress) -> list[Identity]:
    """Stop drivers; return their processes that survived SIGKILL."""
    survivors: list[Identity] = []
    for driver in running_drivers:
        report_progress(f"stopping the stream of {driver.pipeline} (pid {driver.identity.pid})")
        family = processes.family(driver.identity)
        # The driver first, which commits its epoch and ends its JVM; then the rest of its process group.
        processes.stop([driver.identity], timeout=DRIVER_SECONDS)
        survivors += processes.stop(family, timeout=5)
    return survivors
