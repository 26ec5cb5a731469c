"""Factory of Spark sessions: settings common to both paths, and those that an installation may add."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cutover.definition.model.topic import MAX_AVRO_BYTES
from cutover.engine import effective_settings, storage
from cutover.engine.schema_store import bind_schemas
from cutover.errors import DefinitionError, LakeError
from cutover.output import terminal
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

SPEED_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # A micro-batch is cached for a second pass: compressing 200,000 rows takes a third of the first pass.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

JAVA_OPTIONS = (
    "-Duser.timezone=UTC -Duser.language=en -Duser.country=US -Dfile.encoding=UTF-8"
    f" -Dorg.apache.avro.limits.string.maxLength={MAX_AVRO_BYTES}"
    f" -Dorg.apache.avro.limits.bytes.maxLength={MAX_AVRO_BYTES}"
)
"""Options that a JVM would take from its environment, and on which Spark functions may depend; and limits of lengths in
Avro: Java allocates as many bytes as a broken record says that it has, and two gigabytes would end the process."""

QUIET_ARCHIVE = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Options that silence the JVM's message about a class archive that it ignores because it does not match."""

CLUSTER_SHUFFLE = "8"
"""Shuffle partitions on a cluster whose settings have neither those nor `spark.cores.max`."""

LOG_FILE = "cutover.jvm.log"
"""JVM property with the path of its log file."""

# Rename on a local disk is atomic; on a remote file system it is not, so Spark's default is used there.
LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

TO_STDERR = """\
appender.here.type = Console
appender.here.target = SYSTEM_ERR
"""

TO_FILE = f"""\
appender.here.type = RollingFile
appender.here.fileName = ${{sys:{LOG_FILE}}}
appender.here.filePattern = ${{sys:{LOG_FILE}}}.%i
appender.here.filePermissions = rw-------
appender.here.createOnDemand = true
appender.here.policies.type = SizeBasedTriggeringPolicy
appender.here.policies.size = {terminal.MAX_LOG_BYTES}
appender.here.strategy.type = DefaultRolloverStrategy
appender.here.strategy.max = {terminal.ROTATED_FILES}
"""

LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.here.ref = here
appender.here.name = here
appender.here.layout.type = PatternLayout
appender.here.layout.pattern = %d{yy-MM-dd HH:mm:ss} %p %c{1}: %m%n
# Logged at every start, without significance.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
# The Delta log store and the Kafka source warn at every start of a normal condition.
logger.offsets.name = org.apache.spark.sql.kafka010
logger.offsets.level = error
logger.clients.name = org.apache.kafka
logger.clients.level = error
# A query that ends is reported once, by the driver, in a sentence; this logger would print a stack of 60 lines.
logger.query.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.query.level = off
"""


def session(settings: Settings, *, app: str) -> "SparkSession":
    """Return the Spark session of this process; the first call creates it.

    Times are UTC, ANSI mode is on, adaptive execution is off. With a master `local[..]` everything listens on loopback
    and temporary files are under `settings.home`; with another master Spark's own settings of hosts apply.

    Args:
        settings: `settings.spark` is passed through (master, driver memory, further conf).
        app: Name of this process in Spark's pages and logs.

    Raises:
        LakeError: The JARs are not installed.
        DefinitionError: `spark.conf` sets a conf that results depend on.
    """
    terminal.redirect_output(settings.home)
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- commands that need no Spark must not pay for it

    builder = SparkSession.builder.master(settings.spark.master).appName(app)
    for key, value in make_spark_conf(settings).items():
        builder = builder.config(key, value)
    bind_schemas(settings)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local(settings):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # A failed query is reported once, by the caller; this logger would print it a second time, as JSON.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return builder.getOrCreate()


def start_early(settings: Settings, *, app: str) -> None:
    """Start the session in the background; `session` waits for it and raises its errors.

    Args:
        settings: As for `session`.
        app: As for `session`.
    """

    def begin() -> None:
        with contextlib.suppress(Exception):  # the caller of the session gets the error
            session(settings, app=app)

    threading.Thread(target=begin, name="spark-start", daemon=True).start()


def make_spark_conf(settings: Settings) -> dict[str, str]:
    """Return all confs of the session; those of the installation take precedence.

    Raises:
        LakeError: The JARs are not installed.
        DefinitionError: `spark.conf` sets a conf that results depend on.
    """
    _reject_result_conf(settings)
    conf = effective_settings.PINNED | SPEED_CONF | storage.spark_conf(settings.lake_uri)
    conf |= {"spark.driver.memory": settings.spark.driver_memory}
    conf |= _make_local_conf(settings) if is_local(settings) else _make_cluster_conf(settings)
    return conf | settings.spark.conf | _join_java_options(conf, settings.spark.conf)


def _join_java_options(conf: Mapping[str, str], installation_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the options of both JVMs: Cutover's first, then those of the installation, which are added."""
    options = {}
    for role in ("driver", "executor"):
        key = f"spark.{role}.extraJavaOptions"
        options[key] = " ".join(filter(None, [JAVA_OPTIONS, conf.get(key), installation_conf.get(key)]))
    return options


def is_local(settings: Settings) -> bool:
    """Return whether driver and executors are one process on this machine."""
    return settings.spark.master.startswith("local[") or settings.spark.master == "local"


def cores(master: str) -> int:
    """Return the cores of a local master: 1 for `local`, 4 for `local[4]`, all for `local[*]`."""
    core_text = master.removeprefix("local").strip("[]").split(",")[0]
    return (os.cpu_count() or 1) if core_text == "*" else int(core_text or 1)


def archive() -> Path:
    """Return the path of the class archive of a local driver's JVM; `make setup` writes it, but it may be missing."""
    return Path(sys.prefix) / "share" / "cutover" / "spark.jsa"


def _make_local_conf(settings: Settings) -> dict[str, str]:
    scratch = settings.home.resolve() / "tmp" / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    file = terminal.jvm_log()
    log4j = scratch / ("log4j2.properties" if file is None else "log4j2-file.properties")
    log4j.write_text(LOG4J + (TO_STDERR if file is None else TO_FILE), encoding="utf-8")
    logged = "" if file is None else f' "-D{LOG_FILE}={file}"'
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.sql.shuffle.partitions": str(cores(settings.spark.master)),
        "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # On the class path instead of `spark.jars`: one process needs no copies, and the classes can be archived.
        "spark.driver.extraClassPath": os.pathsep.join(str(folder / "*") for folder in _jar_folders(settings)),
        "spark.driver.extraJavaOptions": (
            # Quoted, since a blank in a folder's name would end the option.
            f'"-Djava.io.tmpdir={scratch}" -Dlog4j2.configurationFile={log4j.as_uri()}{logged}{_share_classes()}'
        ),
    }


def _share_classes() -> str:
    return f' "-XX:SharedArchiveFile={archive()}" {QUIET_ARCHIVE}' if archive().is_file() else ""


def _make_cluster_conf(settings: Settings) -> dict[str, str]:
    """Return the confs of a cluster: the JARs that executors fetch, and as many shuffle partitions as requested cores.

    Spark's default of 200 partitions makes a small epoch 18 times slower.
    """
    jars = (jar for folder in _jar_folders(settings) for jar in sorted(folder.glob("*.jar")))
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": settings.spark.conf.get("spark.cores.max", CLUSTER_SHUFFLE),
    }


def _reject_result_conf(settings: Settings) -> None:
    rejected = effective_settings.find_rejected_conf(settings.spark.conf)
    if rejected is not None:
        key, expected = rejected
        msg = (
            f"Settings (`cutover.toml` or `CUTOVER_SPARK__CONF`), `spark.conf`: expected {expected}, got `{key}` = "
            f"`{settings.spark.conf[key]}`.\nHint: results could depend on it; remove the line."
        )
        raise DefinitionError(msg)


def _jar_folders(settings: Settings) -> list[Path]:
    extra = storage.extra_jars(settings.lake_uri)
    return [_jar_folder(jar_set) for jar_set in ("spark", extra) if jar_set]


def _jar_folder(jar_set: str) -> Path:
    folder = Path(sys.prefix) / "share" / "cutover" / "jars" / jar_set
    if not any(folder.glob("*.jar")):
        step = "make setup" if jar_set == "spark" else f"make jars-{jar_set}"
        msg = f"JARs of `{jar_set}` are not installed: expected them in `{folder}`, found none.\nHint: run `{step}`."
        raise LakeError(msg)
    return folder
