"""Broker of an installation: Apache Kafka with one node in KRaft mode, on the loopback address."""

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
from cutover.infra.processes.supervisor import LOOPBACK, Ports
from cutover.log import options
from cutover.log.options import ClientOption
from cutover.settings import Settings

HERE = Path(__file__).parent
HEAP = "512m"
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that runs for about a second."""
REQUEST_SECONDS = 1.0
FORMAT_SECONDS = 60


def format_broker_address(ports: Ports) -> str:
    """Return `127.0.0.1:<port>`, for `bootstrap.servers`."""
    return f"{LOOPBACK}:{ports.broker}"


def locate_broker_files(home: Path) -> Path:
    """Return `kafka` below the installation's home; it need not exist."""
    return home / "kafka"


def server_properties(home: Path, ports: Ports) -> str:
    """Format the broker's configuration with the ports and the data folder of this home."""
    text = (HERE / "server.properties").read_text(encoding="utf-8")
    data = str(locate_broker_files(home) / "data").replace("\\", "\\\\")  # a backslash escapes in Java properties
    return Template(text).substitute(data=data, broker=ports.broker, controller=ports.controller)


def java(home: Path, main_class: str, *arguments: str, heap: str = HEAP, flags: Sequence[str] = ()) -> list[str]:
    """Build the command that runs a class of Kafka, with the broker's log file."""
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
    """Return the path of `broker.log` in the broker's folder; it need not exist."""
    return locate_broker_files(home) / "broker.log"


def make_broker_command(home: Path) -> list[str]:
    """Build the command that runs the broker, after `prepare_broker`."""
    return java(home, "kafka.Kafka", str(locate_broker_files(home) / "server.properties"))


def prepare_broker(home: Path, ports: Ports) -> None:
    """Write the configuration, and format the storage unless it is formatted.

    Raises:
        LogError: The storage could not be formatted.
    """
    config = locate_broker_files(home) / "server.properties"
    files.write_atomically(config, server_properties(home, ports))
    if (locate_broker_files(home) / "data" / "meta.properties").exists():
        return
    files.make_private_folder(locate_broker_files(home) / "data")
    arguments = ("format", "--standalone", "--ignore-formatted", "--cluster-id", new_cluster_id(), "-c", str(config))
    completed = subprocess.run(
        java(home, "kafka.tools.StorageTool", *arguments, heap="128m", flags=SHORT_LIVED),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FORMAT_SECONDS,
        check=False,
    )
    if completed.returncode != 0:
        folder = locate_broker_files(home)
        msg = f"Storage of the broker, `{folder}`: formatting failed with exit code {completed.returncode}:\n"
        raise LogError(msg + (completed.stderr or completed.stdout)[-2000:])


def new_cluster_id() -> str:
    """Generate a cluster id of 22 characters, without a leading dash, which would be parsed as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def write_address(run_dir: Path, ports: Ports) -> None:
    """Write the broker's address to `<home>/run/broker.json`, where all clients of this installation read it."""
    files.write_json(run_dir / "broker.json", {"bootstrap_servers": format_broker_address(ports)})


def reachable(
    bootstrap: str, *, client: Mapping[str, ClientOption] | None = None, timeout: float = REQUEST_SECONDS
) -> int | None:
    """Count the brokers in the cluster's metadata; None if no broker answers in time."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- `cutover status` does not need it without a broker
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

    defaults = {"bootstrap.servers": bootstrap, "log_level": "0", "socket.connection.setup.timeout.ms": "2000"}
    admin = AdminClient({**defaults, **(client or {})})
    try:
        return len(admin.list_topics(timeout=timeout).brokers)
    except KafkaException:
        return None


def answers(settings: Settings, bootstrap: str) -> bool:
    """Check that the cluster of an installation answers within its `kafka.timeout_seconds`."""
    client = options.make_librdkafka_options(settings.kafka, bootstrap)
    return reachable(bootstrap, client=client, timeout=settings.kafka.timeout_seconds) is not None


def wait_ready(home: Path, ports: Ports, *, timeout: float, is_alive: Callable[[], bool]) -> None:
    """Wait until the broker answers.

    Args:
        home: Home of the installation.
        ports: Ports of the broker.
        timeout: Seconds.
        is_alive: Returns False if the broker's process has ended and is not restarted.

    Raises:
        LogError: It does not answer in time, or has ended; the message has the end of its log.
    """

    def is_ready() -> bool | None:
        return bool(reachable(format_broker_address(ports))) or None if is_alive() else False

    if poll_until(is_ready, timeout=timeout, interval=0.1):
        return
    log, address = log_file(home), format_broker_address(ports)
    msg = f"Broker at {address}: expected an answer within {timeout:.0f} s, got none. Its log, `{log}`:"
    raise LogError(f"{msg}\n{tail(log)}", runbook="KafkaUnreachable")  # noqa: EM102 -- a log follows


def tail(path: Path, *, lines: int = 12) -> str:
    """Return the last lines of a file, indented; `(empty)` if there are none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        text = []
    return "\n".join(f"  {line}" for line in text) or "  (empty)"
