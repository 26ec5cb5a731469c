"""The broker: the real Apache Kafka, one node in KRaft mode, on the loopback address."""

import base64
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template

from cutover import files
from cutover.clock import poll_until
from cutover.errors import LogError
from cutover.infra.install import jars
from cutover.infra.processes.ports import LOOPBACK, Ports
from cutover.log import options
from cutover.log.options import ClientOption
from cutover.settings import Settings

HERE = Path(__file__).parent
HEAP = "512m"
SHORT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that lives for a second."""
ASK_SECONDS = 1.0
FORMAT_SECONDS = 60


def address(ports: Ports) -> str:
    """`127.0.0.1:<port>`, as `bootstrap.servers` takes it."""
    return f"{LOOPBACK}:{ports.broker}"


def folder(home: Path) -> Path:
    """Return where the broker keeps its files."""
    return home / "kafka"


def server_properties(home: Path, ports: Ports) -> str:
    """Fill in ports and data folder of this home."""
    text = (HERE / "server.properties").read_text(encoding="utf-8")
    data = str(folder(home) / "data").replace("\\", "\\\\")  # a backslash escapes in Java properties
    return Template(text).substitute(data=data, broker=ports.broker, controller=ports.controller)


def java(home: Path, main_class: str, *arguments: str, heap: str = HEAP, flags: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a class of Kafka's, logging to the broker's own file."""
    return [
        "java",
        f"-Xmx{heap}",
        *flags,
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dcutover.broker.log={log_file(home)}",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        *("-cp", jars.class_path("kafka")),
        main_class,
        *arguments,
    ]


def log_file(home: Path) -> Path:
    """`broker.log` in the broker's folder; it need not exist."""
    return folder(home) / "broker.log"


def command(home: Path) -> list[str]:
    """Return the command that runs the broker; `prepare` comes first."""
    return java(home, "kafka.Kafka", str(folder(home) / "server.properties"))


def prepare(home: Path, ports: Ports) -> None:
    """Write the configuration, and format the storage if that was never done.

    Raises:
        LogError: The storage could not be formatted.
    """
    config = folder(home) / "server.properties"
    files.write(config, server_properties(home, ports))
    if (folder(home) / "data" / "meta.properties").exists():
        return
    files.private_folder(folder(home) / "data")
    arguments = ("format", "--standalone", "--ignore-formatted", "--cluster-id", new_cluster_id(), "-c", str(config))
    completed = subprocess.run(
        java(home, "kafka.tools.StorageTool", *arguments, heap="128m", flags=SHORT),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FORMAT_SECONDS,
        check=False,
    )
    if completed.returncode != 0:
        msg = f"Storage of the broker, `{folder(home)}`: expected it formatted, got exit {completed.returncode}:\n"
        raise LogError(msg + (completed.stderr or completed.stdout)[-2000:])


def new_cluster_id() -> str:
    """Return 22 characters as Kafka makes them; never a leading dash, which would read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def write_address(run_dir: Path, ports: Ports) -> None:
    """Tell every client of this installation where the broker is (`<home>/run/broker.json`)."""
    files.write_json(run_dir / "broker.json", {"bootstrap_servers": address(ports)})


def reachable(
    bootstrap: str, *, client: Mapping[str, ClientOption] | None = None, within: float = ASK_SECONDS
) -> int | None:
    """Return the number of brokers that answer for the cluster; None when nobody does in time."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- `cutover status` asks nobody where no broker runs
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

    quiet = {"bootstrap.servers": bootstrap, "log_level": "0", "socket.connection.setup.timeout.ms": "2000"}
    admin = AdminClient({**quiet, **(client or {})})
    try:
        return len(admin.list_topics(timeout=within).brokers)
    except KafkaException:
        return None


def answers(settings: Settings, bootstrap: str) -> bool:
    """Return whether the cluster of an installation answers within its `kafka.timeout_seconds`."""
    client = options.librdkafka(settings.kafka, bootstrap)
    return reachable(bootstrap, client=client, within=settings.kafka.timeout_seconds) is not None


def wait_ready(home: Path, ports: Ports, *, within: float, alive: Callable[[], bool]) -> None:
    """Poll until the broker answers, or its process is gone.

    Args:
        home: The installation's folder.
        ports: Where the broker listens.
        within: Seconds.
        alive: Whether the broker's process (or whoever restarts it) still tries.

    Raises:
        LogError: It does not answer in time, or died; with the end of its log.
    """

    def look() -> bool | None:
        return bool(reachable(address(ports))) or None if alive() else False

    if poll_until(look, within=within, every=0.1):
        return
    msg = (
        f"Broker at {address(ports)}: expected an answer within {within:.0f} s, got none. Its log, `{log_file(home)}`:"
    )
    raise LogError(f"{msg}\n{tail(log_file(home))}", runbook="KafkaUnreachable")  # noqa: EM102 -- a log follows


def tail(path: Path, *, lines: int = 12) -> str:
    """Return the last lines of a file, indented; that it is empty, if it is."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        text = []
    return "\n".join(f"  {line}" for line in text) or "  (empty)"
