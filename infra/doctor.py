"""Diagnosis of the machine and the installation for `cutover doctor`, and the table of all settings.

Secrets are hidden. Of topics the timestamp setting is checked: a producer that may set arbitrary log times can move
Cutover's clock undetected.
"""

import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from cutover.definition.loading import catalogue
from cutover.engine import spark
from cutover.errors import CutoverError, DefinitionError, LogError
from cutover.infra.install import jars
from cutover.infra.installation import InstallationStatus, ports_path, read_status
from cutover.infra.processes import supervisor
from cutover.log import options
from cutover.log.reachability import find_obstacle
from cutover.log.topic_partitions import name_log, split_topics
from cutover.settings import Settings

HIDDEN = "(hidden)"
SECRET_NAME = re.compile(r"passw|secret|token|credential|jaas|account\.key|access\.key", re.IGNORECASE)
USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")

LONG = 2**63 - 1

Grade = Literal["ok", "note", "broken"]
PACKAGES = ("apache-airflow", "confluent-kafka", "delta-spark", "deltalake", "duckdb", "great-expectations", "pyspark")
GIB = 1024**3
MIN_DISK_GIB = 1
RECOMMENDED_DISK_GIB = 5
RECOMMENDED_MEMORY_GIB = 7
OTHER_USERS = 0o077  # permission bits of group and others


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """Setting with its displayed value, its source and its meaning."""

    name: str  # as in cutover.toml: kafka.protocol
    value: str
    source: str  # default, cutover.toml, or the variable's name
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTimestamps:
    """Timestamp settings of a topic."""

    name: str
    kind: str  # CreateTime or LogAppendTime
    ahead_ms: int  # how far ahead of the broker's clock a producer's timestamp may be

    @property
    def bounded(self) -> bool:
        """True if producers cannot write timestamps arbitrarily far in the future."""
        return self.kind == "LogAppendTime" or self.ahead_ms < LONG

    @property
    def description(self) -> str:
        """Source of the timestamps, and the limit of future ones, in words."""
        if self.kind == "LogAppendTime":
            return "timestamps by the broker (LogAppendTime)"
        limit_text = f"at most {self.ahead_ms} ms ahead" if self.bounded else "without a bound"
        return f"timestamps by the producer ({self.kind}), {limit_text}"

    @property
    def hint(self) -> str:
        """Setting that bounds the timestamps; empty if they are bounded."""
        expected = "message.timestamp.type=LogAppendTime, or set message.timestamp.after.max.ms"
        return "" if self.bounded else f"a producer with a wrong clock moves event time: {expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Finding on one part of the machine or the installation, with its grade."""

    thing: str
    grade: Grade
    found: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All findings, and every setting."""

    findings: tuple[Diagnosis, ...]
    settings: tuple[SettingRow, ...]

    @property
    def broken(self) -> bool:
        """True if a finding prevents Cutover from working."""
        return any(finding.grade == "broken" for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Encode `broken`, `findings` and `settings` for `doctor --json`."""
        return {
            "broken": self.broken,
            "findings": [asdict(finding) for finding in self.findings],
            "settings": [asdict(row) for row in self.settings],
        }


def list_setting_rows(
    settings: Settings, *, environment: Mapping[str, str], toml: Mapping[str, object]
) -> list[SettingRow]:
    """List every setting with its value, without secrets, and its source.

    Args:
        settings: Effective settings.
        environment: Environment from which `CUTOVER_*` were read.
        toml: Content of `cutover.toml`.
    """
    upper = {name.upper() for name in environment}
    return [
        SettingRow(
            name=".".join(path),
            value=format_setting(path[-1], value),
            source=_source(path, upper, toml),
            meaning=meaning,
        )
        for path, value, meaning in _leaves(settings, ())
    ]


def read_toml() -> dict[str, object]:
    """Read `cutover.toml` in the working folder; empty if there is none."""
    path = Path(str(Settings.model_config.get("toml_file")))
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def list_effective_settings(settings: Settings) -> list[SettingRow]:
    """List every setting, with the sources of this process: its environment and `cutover.toml`."""
    return list_setting_rows(settings, environment=os.environ, toml=read_toml())


def format_setting(name: str, value: object) -> str:
    """Format a value for display, with secrets hidden and credentials removed from addresses."""
    if value is None:
        return ""
    if isinstance(value, SecretStr) or (SECRET_NAME.search(name) and not isinstance(value, Path)):
        return HIDDEN
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={format_setting(str(key), item)}" for key, item in sorted(value.items()))
    return USER_INFO.sub(f"{HIDDEN}@", str(value))


def _leaves(model: BaseModel, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object, str]]:
    fields: dict[str, FieldInfo] = type(model).model_fields
    for name, field in fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value, field.description or ""


def _source(path: tuple[str, ...], environment: set[str], toml: Mapping[str, object]) -> str:
    for length in range(len(path), 0, -1):  # CUTOVER_KAFKA may hold all of kafka as JSON
        variable = "CUTOVER_" + "__".join(path[:length]).upper()
        if variable in environment:
            return variable
    prefix = "CUTOVER_" + "__".join(path).upper() + "__"  # of single keys of a mapping
    if any(name.startswith(prefix) for name in environment):
        return f"{prefix}*"
    value: object = toml
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return "default" if value is None else "cutover.toml"


def read_timestamps(settings: Settings, bootstrap: str, *, names: Collection[str]) -> list[TopicTimestamps]:
    """Read the timestamp settings of topics from the cluster; topics that do not exist are left out.

    Raises:
        LogError: The cluster does not answer.
    """
    admin = AdminClient(options.make_librdkafka_options(settings.kafka, bootstrap))
    timeout_seconds = settings.kafka.timeout_seconds
    try:
        existing = sorted(set(names) & admin.list_topics(timeout=timeout_seconds).topics.keys())
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in existing]
        answers = admin.describe_configs(resources, request_timeout=timeout_seconds) if resources else {}
        return [_parse_config(resource.name, future.result(timeout_seconds)) for resource, future in answers.items()]
    except KafkaException as error:
        msg = f"Kafka at `{bootstrap}`: expected the settings of its topics, got {error}."
        raise LogError(msg, runbook="KafkaUnreachable") from error


def _parse_config(name: str, config: dict[str, object]) -> TopicTimestamps:
    values = {key: str(getattr(entry, "value", "")) for key, entry in config.items()}
    ahead = values.get("message.timestamp.after.max.ms", "")
    return TopicTimestamps(
        name=name,
        kind=values.get("message.timestamp.type", "CreateTime"),
        ahead_ms=int(ahead) if ahead.isdigit() else LONG,
    )


def examine(settings: Settings) -> Examination:
    """Diagnose the machine and the installation, without starting or changing anything."""
    checks: list[Callable[[], list[Diagnosis]]] = [
        lambda: [_python(), _java(), *map(_jars, jars.BOOTSTRAP), _class_archive(), *map(_package, PACKAGES)],
        lambda: [_disk(settings.home), memory(psutil.virtual_memory().total), _home(settings.home)],
        lambda: _definitions(settings),
        lambda: [_ports(settings)],
        lambda: _services(settings),
    ]
    findings = tuple(finding for check in checks for finding in _try_check(check))
    return Examination(findings=findings, settings=tuple(list_effective_settings(settings)))


def report_invalid_settings(error: DefinitionError) -> Examination:
    """Report invalid settings as the only finding, with the defaults of all settings."""
    message = str(error).partition("\nHint: ")[0]
    finding = Diagnosis(thing="settings", grade="broken", found=message, hint="the list below")
    defaults = list_setting_rows(Settings.model_construct(), environment={}, toml={})
    return Examination(findings=(finding,), settings=tuple(defaults))


def _try_check(check: Callable[[], list[Diagnosis]]) -> list[Diagnosis]:
    """Run a check; return its error as a finding if it raises."""
    try:
        return check()
    except CutoverError as error:
        message, _, hint = str(error).partition("\nHint: ")
        return [Diagnosis(thing="installation", grade="broken", found=message, hint=hint)]


def _python() -> Diagnosis:
    return Diagnosis(thing="python", grade="ok", found=f"{platform.python_version()} in {sys.prefix}")


def _java() -> Diagnosis:
    java_version = jars.find_java_version()
    if jars.is_supported_java(java_version):
        return Diagnosis(thing="java", grade="ok", found=str(java_version))
    return Diagnosis(thing="java", grade="broken", found=java_version or "none", hint=jars.JAVA_HINT)


def _jars(jar_set: jars.JarSet) -> Diagnosis:
    problems = jars.find_problems(jar_set)
    thing = f"JARs for {jar_set}"
    if problems:
        return Diagnosis(thing=thing, grade="broken", found="; ".join(problems[:3]), hint="make setup")
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
    """Grade the free bytes on the disk of the home."""
    grade: Grade = "ok" if free >= RECOMMENDED_DISK_GIB * GIB else "note" if free >= MIN_DISK_GIB * GIB else "broken"
    hint = "" if grade == "ok" else f"{RECOMMENDED_DISK_GIB} GiB suffice for the sample and its reports"
    return Diagnosis(thing="disk", grade=grade, found=f"{free / GIB:.1f} GiB free at {path}", hint=hint)


def memory(total: int) -> Diagnosis:
    """Grade the machine's memory in bytes: `ok`, or a `note` if the demonstration may need more."""
    is_enough = total >= RECOMMENDED_MEMORY_GIB * GIB
    hint = "" if is_enough else f"the demonstration uses up to {RECOMMENDED_MEMORY_GIB} GiB"
    return Diagnosis(thing="memory", grade="ok" if is_enough else "note", found=f"{total / GIB:.1f} GiB", hint=hint)


def _home(home: Path) -> Diagnosis:
    path = home.resolve()
    if not path.exists():
        return Diagnosis(thing="home", grade="note", found=f"{path} does not exist yet", hint="cutover up")
    if path.stat().st_mode & OTHER_USERS:
        problem = f"{path} is accessible to other users"
        return Diagnosis(thing="home", grade="note", found=problem, hint=f"chmod 700 {path}")
    return Diagnosis(thing="home", grade="ok", found=str(path))


def _definitions(settings: Settings) -> list[Diagnosis]:
    if not settings.pipelines.is_dir():
        problem = f"{settings.pipelines.resolve()} does not exist"
        return [Diagnosis(thing="pipelines", grade="broken", found=problem, hint="set CUTOVER_PIPELINES")]
    pipelines, problems = catalogue.scan(settings)
    pipeline_names = f"{', '.join(pipelines) or 'none'} in {settings.pipelines.resolve()}"
    broken = [Diagnosis(thing="definition", grade="broken", found=str(p), hint="cutover lint") for p in problems]
    return [Diagnosis(thing="pipelines", grade="ok", found=pipeline_names), *broken]


def _ports(settings: Settings) -> Diagnosis:
    ports = supervisor.load_ports(ports_path(settings))
    if ports is None:
        return Diagnosis(thing="ports", grade="note", found="none chosen yet", hint="cutover up")
    port_names = ", ".join(f"{name} {port}" for name, port in ports.by_name().items())
    if any(program.pid for program in read_status(settings).programs):
        return Diagnosis(thing="ports", grade="ok", found=f"{port_names}, in use by this installation")
    taken_ports = {name: port for name, port in ports.by_name().items() if not supervisor.is_port_free(port)}
    if taken_ports:
        holders = "; ".join(
            f"{name} {port} by {supervisor.find_port_holder(port)}" for name, port in taken_ports.items()
        )
        hint = f"rm {ports_path(settings)}"
        return Diagnosis(thing="ports", grade="broken", found=f"used by other programs: {holders}", hint=hint)
    return Diagnosis(thing="ports", grade="ok", found=f"{port_names}, free")


def _services(settings: Settings) -> list[Diagnosis]:
    installation = read_status(settings)
    return [_broker(settings, installation), *_timestamps(settings, installation), _airflow(installation)]


def _broker(settings: Settings, installation: InstallationStatus) -> Diagnosis:
    if installation.kafka_answers:
        return Diagnosis(thing="kafka", grade="ok", found=f"{installation.kafka} answers")
    if settings.kafka.bootstrap_servers or any(p.group == "kafka" and p.pid for p in installation.programs):
        hint = "docs/runbooks/KafkaUnreachable.md"
        kafka = installation.kafka
        obstacle = None if kafka is None else find_obstacle(kafka, settings.kafka.protocol)
        problem = f"{kafka} does not answer" if obstacle is None else obstacle.message
        return Diagnosis(thing="kafka", grade="broken", found=problem, hint=hint)
    return Diagnosis(thing="kafka", grade="note", found="not started", hint="cutover up")


def _timestamps(settings: Settings, installation: InstallationStatus) -> list[Diagnosis]:
    if not installation.kafka_answers or installation.kafka is None:
        return []
    topics = {topic for pipeline in catalogue.scan(settings)[0].values() for topic in split_topics(name_log(pipeline))}
    return [
        Diagnosis(
            thing=f"topic {topic.name}",
            grade="ok" if topic.bounded else "note",
            found=topic.description,
            hint=topic.hint,
        )
        for topic in read_timestamps(settings, installation.kafka, names=topics)
    ]


def _airflow(installation: InstallationStatus) -> Diagnosis:
    if not any(p.group == "airflow" and p.pid for p in installation.programs):
        return Diagnosis(thing="airflow", grade="note", found="not started", hint="cutover up")
    address = installation.airflow
    unhealthy = [name for name, health in installation.airflow_health.items() if health != "healthy"]
    if installation.airflow_health and not unhealthy:
        return Diagnosis(thing="airflow", grade="ok", found=f"{address} is healthy")
    problem = f"{address}: {', '.join(unhealthy)} not healthy" if unhealthy else f"{address} does not answer"
    return Diagnosis(thing="airflow", grade="broken", found=problem, hint=f"logs in {installation.home / 'logs'}")
