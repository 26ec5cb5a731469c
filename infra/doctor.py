"""`cutover doctor`: what this machine has, what it lacks, and every setting."""

import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from cutover.definition.loading import catalogue
from cutover.engine import spark
from cutover.errors import CutoverError, DefinitionError
from cutover.infra import settings_table, status
from cutover.infra.broker import timestamps
from cutover.infra.install import jars, java
from cutover.infra.processes import ports as ports_module
from cutover.infra.start import ports_path
from cutover.log.reachability import find_obstacle
from cutover.log.topic_partitions import log_of, topics_of
from cutover.settings import Settings

Grade = Literal["ok", "note", "broken"]
PACKAGES = ("apache-airflow", "confluent-kafka", "delta-spark", "deltalake", "duckdb", "great-expectations", "pyspark")
GIB = 1024**3
DISK_GIB_NEEDED = 1
DISK_GIB_WISHED = 5
MEMORY_GIB_WISHED = 7
OTHERS = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at."""

    thing: str
    grade: Grade
    found: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All that was looked at."""

    findings: tuple[Diagnosis, ...]
    settings: tuple[settings_table.SettingRow, ...]

    @property
    def broken(self) -> bool:
        """Return whether something keeps Cutover from working."""
        return any(finding.grade == "broken" for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """`broken`, `findings`, `settings`, as `doctor --json` prints them."""
        return {
            "broken": self.broken,
            "findings": [asdict(finding) for finding in self.findings],
            "settings": [asdict(row) for row in self.settings],
        }


def examine(settings: Settings) -> Examination:
    """Look at the machine and the installation; starts and changes nothing."""
    looks: list[Callable[[], list[Diagnosis]]] = [
        lambda: [_python(), _java(), *map(_jars, jars.BOOTSTRAP), _class_archive(), *map(_package, PACKAGES)],
        lambda: [_disk(settings.home), memory(psutil.virtual_memory().total), _home(settings.home)],
        lambda: _definitions(settings),
        lambda: [_ports(settings)],
        lambda: _services(settings),
    ]
    findings = tuple(finding for look in looks for finding in _try_look(look))
    return Examination(findings=findings, settings=tuple(settings_table.current(settings)))


def refuse_settings(error: DefinitionError) -> Examination:
    """Return that the settings do not fit, with every setting as it would be without them."""
    message = str(error).partition("\nHint: ")[0]
    finding = Diagnosis(thing="settings", grade="broken", found=message, hint="the list below")
    defaults = settings_table.rows(Settings.model_construct(), environment={}, toml={})
    return Examination(findings=(finding,), settings=tuple(defaults))


def _try_look(look: Callable[[], list[Diagnosis]]) -> list[Diagnosis]:
    try:
        return look()
    except CutoverError as error:
        thing, _, hint = str(error).partition("\nHint: ")
        return [Diagnosis(thing="installation", grade="broken", found=thing, hint=hint)]


def _python() -> Diagnosis:
    return Diagnosis(thing="python", grade="ok", found=f"{platform.python_version()} in {sys.prefix}")


def _java() -> Diagnosis:
    java_version = java.version()
    if java.fits(java_version):
        return Diagnosis(thing="java", grade="ok", found=str(java_version))
    return Diagnosis(thing="java", grade="broken", found=java_version or "none", hint=java.HINT)


def _jars(jar_set: jars.JarSet) -> Diagnosis:
    wrong = jars.check(jar_set)
    thing = f"JARs for {jar_set}"
    if wrong:
        return Diagnosis(thing=thing, grade="broken", found="; ".join(wrong[:3]), hint="make setup")
    return Diagnosis(thing=thing, grade="ok", found=f"{len(jars.read_locked_checksums(jar_set))} as locked")


def _class_archive() -> Diagnosis:
    thing = "class archive"
    if spark.archive().is_file():
        return Diagnosis(thing=thing, grade="ok", found=f"{spark.archive().stat().st_size / 1024**2:.0f} MiB")
    hint = "`.venv/bin/python -m cutover.infra.install.class_archive`: Spark starts faster with one"
    return Diagnosis(thing=thing, grade="note", found="none", hint=hint)


def _package(name: str) -> Diagnosis:
    try:
        return Diagnosis(thing=name, grade="ok", found=version(name))
    except PackageNotFoundError:
        return Diagnosis(thing=name, grade="broken", found="not installed", hint="make setup")


def _disk(home: Path) -> Diagnosis:
    existing = next(p for p in (home.resolve(), *home.resolve().parents) if p.exists())
    return disk(shutil.disk_usage(existing).free, existing)


def disk(free: int, path: Path) -> Diagnosis:
    """Return what `free` bytes on the disk of the home mean."""
    grade: Grade = "ok" if free >= DISK_GIB_WISHED * GIB else "note" if free >= DISK_GIB_NEEDED * GIB else "broken"
    hint = "" if grade == "ok" else f"{DISK_GIB_WISHED} GiB let the sample and its reports fit easily"
    return Diagnosis(thing="disk", grade=grade, found=f"{free / GIB:.1f} GiB free at {path}", hint=hint)


def memory(total: int) -> Diagnosis:
    """Grade a machine's bytes: `ok`, or a `note` where the demonstration may not fit."""
    enough = total >= MEMORY_GIB_WISHED * GIB
    hint = "" if enough else f"the demonstration peaks below {MEMORY_GIB_WISHED} GiB"
    return Diagnosis(thing="memory", grade="ok" if enough else "note", found=f"{total / GIB:.1f} GiB", hint=hint)


def _home(home: Path) -> Diagnosis:
    path = home.resolve()
    if not path.exists():
        return Diagnosis(thing="home", grade="note", found=f"{path} is not there yet", hint="cutover up")
    if path.stat().st_mode & OTHERS:
        found = f"{path} can be entered by other users"
        return Diagnosis(thing="home", grade="note", found=found, hint=f"chmod 700 {path}")
    return Diagnosis(thing="home", grade="ok", found=str(path))


def _definitions(settings: Settings) -> list[Diagnosis]:
    if not settings.pipelines.is_dir():
        found, hint = f"{settings.pipelines.resolve()} is not there", "set CUTOVER_PIPELINES"
        return [Diagnosis(thing="pipelines", grade="broken", found=found, hint=hint)]
    pipelines, problems = catalogue.scan(settings)
    pipeline_names = f"{', '.join(pipelines) or 'none'} in {settings.pipelines.resolve()}"
    broken = [Diagnosis(thing="definition", grade="broken", found=str(p), hint="cutover lint") for p in problems]
    return [Diagnosis(thing="pipelines", grade="ok", found=pipeline_names), *broken]


def _ports(settings: Settings) -> Diagnosis:
    ports = ports_module.load(ports_path(settings))
    if ports is None:
        return Diagnosis(thing="ports", grade="note", found="none chosen yet", hint="cutover up")
    port_names = ", ".join(f"{name} {port}" for name, port in ports.by_name().items())
    if any(program.pid for program in status.look(settings).programs):
        return Diagnosis(thing="ports", grade="ok", found=f"{port_names}, in use by this installation")
    taken_ports = {name: port for name, port in ports.by_name().items() if not ports_module.is_free(port)}
    if taken_ports:
        holders = "; ".join(f"{name} {port} by {ports_module.holder(port)}" for name, port in taken_ports.items())
        return Diagnosis(
            thing="ports", grade="broken", found=f"held by others: {holders}", hint=f"rm {ports_path(settings)}"
        )
    return Diagnosis(thing="ports", grade="ok", found=f"{port_names}, free")


def _services(settings: Settings) -> list[Diagnosis]:
    now = status.look(settings)
    return [_broker(settings, now), *_timestamps(settings, now), _airflow(now)]


def _broker(settings: Settings, now: status.InstallationStatus) -> Diagnosis:
    if now.kafka_answers:
        return Diagnosis(thing="kafka", grade="ok", found=f"{now.kafka} answers")
    if settings.kafka.bootstrap_servers or any(p.group == "kafka" and p.pid for p in now.programs):
        hint = "docs/runbooks/KafkaUnreachable.md"
        obstacle = None if now.kafka is None else find_obstacle(now.kafka, settings.kafka.protocol)
        found = f"{now.kafka} does not answer" if obstacle is None else obstacle.message
        return Diagnosis(thing="kafka", grade="broken", found=found, hint=hint)
    return Diagnosis(thing="kafka", grade="note", found="not started", hint="cutover up")


def _timestamps(settings: Settings, now: status.InstallationStatus) -> list[Diagnosis]:
    if not now.kafka_answers or now.kafka is None:
        return []
    topics = {topic for pipeline in catalogue.scan(settings)[0].values() for topic in topics_of(log_of(pipeline))}
    return [
        Diagnosis(
            thing=f"topic {topic.name}", grade="ok" if topic.bounded else "note", found=topic.says, hint=topic.hint
        )
        for topic in timestamps.topics(settings, now.kafka, names=topics)
    ]


def _airflow(now: status.InstallationStatus) -> Diagnosis:
    if not any(p.group == "airflow" and p.pid for p in now.programs):
        return Diagnosis(thing="airflow", grade="note", found="not started", hint="cutover up")
    ill = [name for name, health in now.airflow_health.items() if health != "healthy"]
    if now.airflow_health and not ill:
        return Diagnosis(thing="airflow", grade="ok", found=f"{now.airflow} is healthy")
    found = f"{now.airflow}: {', '.join(ill)} not healthy" if ill else f"{now.airflow} does not answer"
    return Diagnosis(thing="airflow", grade="broken", found=found, hint=f"logs in {now.home / 'logs'}")
