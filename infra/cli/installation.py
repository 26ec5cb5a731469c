"""Commands of the installation: `cutover up`, `down`, `status`, `doctor`, and a Spark cluster on this machine.

The cluster is Spark's standalone one from the installed package: a master and workers, all on loopback. Both paths run
on it in several processes, with executors that can fail independently. A real cluster needs one setting
(`spark.master`); this one is for experiments and tests.
"""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutover.clock import poll_until
from cutover.counts import count_noun
from cutover.errors import CutoverError, DefinitionError
from cutover.infra.processes import family
from cutover.infra.processes.supervisor import LOOPBACK, choose_port
from cutover.output.console import Line, Output, Verbatim, make_table, show_spinner, styled
from cutover.process import Identity, identify
from cutover.settings import load_settings

if TYPE_CHECKING:
    from cutover.driver_state import DetachedDriver
    from cutover.infra.doctor import Examination
    from cutover.infra.installation import InstallationStatus

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
REGISTERED = "Successfully registered with master"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Running cluster: address of its master, its workers, and the cores of each."""

    master: str
    workers: tuple[Identity, ...]
    cores: int  # of one worker
    folder: Path  # logs and the workers' folders

    def conf(self) -> Mapping[str, str]:
        """Make the Spark configuration of an application on this cluster, for `spark.conf` in the settings."""
        total = self.cores * len(self.workers)
        return {
            "spark.cores.max": str(total),
            "spark.executor.memory": "1g",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
        }


@contextmanager
def open_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1500m") -> Iterator[Cluster]:
    """Run a master and workers; they end with the block.

    Args:
        folder: Folder for logs, work folders and Spark's scratch space.
        workers: Number of workers, each with `cores` and `memory`.
        cores: Cores per worker.
        memory: Memory per worker, in Spark's notation.

    Raises:
        CutoverError: A process did not start; the message names its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = choose_port()
    address = f"spark://{LOOPBACK}:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_spawn(folder, "master", MASTER, "--port", str(port)))
        _wait_ready(processes[0], folder / "master.log", lambda: _is_listening(port))
        for number in range(workers):
            name = f"worker-{number}"
            arguments = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / name), address)
            processes.append(_spawn(folder, name, WORKER, *arguments))
        for number, process in enumerate(processes[1:]):
            log = folder / f"worker-{number}.log"
            _wait_ready(process, log, functools.partial(_has_registered, log))
        identities = tuple(identity for p in processes[1:] if (identity := identify(p.pid)) is not None)
        yield Cluster(master=address, workers=identities, cores=cores, folder=folder)
    finally:
        _stop(processes)


def _spawn(folder: Path, name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
    home = _spark_home()
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,  # the web pages of master and workers too
        "SPARK_LOCAL_DIRS": str(scratch),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), main, "--host", LOOPBACK, "--webui-port", "0", *arguments]
    with (folder / f"{name}.log").open("wb") as log_file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            env=environment,
            start_new_session=True,
        )


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        msg = "Spark is not installed: expected the package `pyspark`.\nHint: run `make setup`."
        raise CutoverError(msg)
    return Path(spec.origin).parent


def _wait_ready(process: "subprocess.Popen[bytes]", log: Path, is_ready: Callable[[], bool]) -> None:
    def poll() -> bool | None:
        return False if process.poll() is not None else is_ready() or None

    if poll_until(poll, timeout=READY_SECONDS, interval=family.POLL_SECONDS):
        return
    state = "no answer" if process.poll() is None else f"its end with exit code {process.returncode}"
    msg = f"Spark cluster, `{log.stem}`: expected it to be ready within {READY_SECONDS:.0f} s, got {state}."
    raise CutoverError(msg + f"\nHint: its log is `{log}`.")


def _has_registered(log: Path) -> bool:
    return REGISTERED in log.read_text(encoding="utf-8", errors="replace")


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _stop(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Stop the workers with their executors, then the master."""
    for process in reversed(processes):
        leader = identify(process.pid)
        members = [] if leader is None else [*family.session_of(leader), *family.family(leader)]
        family.stop(members, timeout=STOP_SECONDS)
        process.wait()


COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


def list_status_lines(installation: "InstallationStatus") -> Iterator[Line]:
    """Yield the processes and drivers, their addresses, and the next step."""
    rows = [
        *((program.name, program.state, program.pid or "", program.detail) for program in installation.programs),
        *map(_make_driver_cells, installation.drivers),
    ]
    if rows:
        yield make_table(("process", "state", "pid", "detail"), rows)
        yield ""
    answer = "answers" if installation.kafka_answers else "does not answer"
    yield f"Kafka    {installation.kafka or 'none yet'}{f'  ({answer})' if installation.kafka else ''}"
    if installation.airflow is not None:
        health = ", ".join(f"{name} {word}" for name, word in installation.airflow_health.items()) or "does not answer"
        yield f"Airflow  {installation.airflow}  ({health})"
        yield f"         passwords in {installation.password_file}"
    yield f"Home     {installation.home}"
    yield from (f"Tables   {sentence}" for sentence in installation.own_tables)
    for text in installation.definitions:
        first_line, *further = text.splitlines()
        yield styled(("Definition", "yellow"), f"  {first_line}")
        yield from (f"            {line}" for line in further)
    yield _describe_next_step(installation)


def _make_driver_cells(driver: "DetachedDriver") -> tuple[object, ...]:
    beat = driver.heartbeat or {}
    state = str(beat.get("state", "unknown")) if driver.alive else "not running"
    text = "no heartbeat yet"
    if beat:
        epoch = "no epoch yet" if beat.get("epoch") is None else f"epoch {beat['epoch']}"
        lag = "unknown" if beat.get("lag") is None else beat["lag"]
        text = f"{epoch}, lag {lag}, {beat.get('at')}"
    return f"stream of {driver.pipeline}", state, driver.identity.pid, driver.problem or text


def _describe_next_step(installation: "InstallationStatus") -> str:
    """Describe the number of running processes and the next step, in one line."""
    running, alive = [p for p in installation.programs if p.pid], [d for d in installation.drivers if d.alive]
    message = f"Running: {count_noun(len(running), 'process')} and {count_noun(len(alive), 'stream')}."
    failed = [p.name for p in installation.programs if p.state == "FATAL" or (p.is_active and not p.pid)]
    dead = [d.pipeline for d in installation.drivers if not d.alive and "." not in d.pipeline]  # a replay's has one
    if failed or (alive and not installation.kafka_answers):
        return f"{message} Next: `cutover doctor` diagnoses {', '.join(failed) or 'Kafka'}."
    if installation.definitions:
        return f"{message} Next: `cutover lint` checks the definitions."
    if not running and not installation.kafka_answers:
        return f"{message} Next: `cutover up`."
    if dead:
        return f"{message} Next: `cutover stream {dead[0]} --detach`."
    if alive:
        return f"{message} Next: `cutover watch {alive[0].pipeline}`."
    start = (f"`cutover stream {name} --detach`" for name in installation.pipelines)
    return f"{message} Next: {next(start, '`cutover init NAME --from FILE` writes a definition')}."


def list_finding_lines(examination: "Examination") -> Iterator[Line]:
    """Yield all findings, all settings, and the next step."""
    yield make_table(
        ("", "thing", "found", "hint"),
        (
            (styled((finding.grade, COLOURS[finding.grade])), finding.thing, finding.found, finding.hint)
            for finding in examination.findings
        ),
    )
    yield ""
    yield make_table(
        ("setting", "value", "from", "meaning"),
        ((row.name, row.value, row.source, row.meaning) for row in examination.settings),
        no_wrap=("setting",),
    )
    counts = Counter[str](finding.grade for finding in examination.findings)
    counts_text = ", ".join(f"{counts[grade]} {grade}" for grade in COLOURS)
    next_step = (
        "fix what is broken, by its hint" if examination.broken else "`cutover up`, or `cutover status` once it runs"
    )
    yield ""
    yield f"{counts_text}. Next: {next_step}."


def up(
    *,
    broker_only: Annotated[bool, typer.Option("--broker-only", help="Start the broker without Airflow.")] = False,
    sample: Annotated[list[str] | None, typer.Option("--sample", help="Another sample to show in Airflow.")] = None,
) -> Output:
    """Start the broker and Airflow, and wait until they answer."""
    from cutover.infra import installation
    from cutover.infra.airflow import instance

    os.umask(0o077)
    settings = load_settings()
    enabled = instance.turn_on_samples(settings, sample) if sample else ()
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
    from cutover.infra import installation
    from cutover.infra.cli.installation import list_status_lines

    settings = load_settings()
    pipelines, problems = installation.check_definitions(settings)
    status = installation.read_status(settings, pipelines=pipelines, definitions=problems)
    return Output(document=status.to_json(), lines=list_status_lines(status))


def diagnose() -> Output:
    """Check this machine and show all settings without secrets; exit 2 if something is broken."""
    from cutover.infra import doctor
    from cutover.infra.cli.installation import list_finding_lines

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
        open_cluster(folder, workers=workers, cores=cores, memory=memory) as running,
    ):
        yield Output(
            document={"master": running.master, "conf": dict(running.conf())},
            lines=[Verbatim(_format_cluster(running, workers, memory, str(folder)))],
        )
        while True:
            signal.pause()


def _format_cluster(running: Cluster, workers: int, memory: str, folder: str) -> str:
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
