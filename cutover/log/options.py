"""Client options from the neutral settings of the log, and the cluster's address for modules that need no client.

Client keys that these settings do not contain have to be on an allow-list.
"""

import json
from pathlib import Path

from cutover.errors import DefinitionError, LogError
from cutover.settings import KafkaSettings, RegistrySettings, Settings

ClientOption = str | int | float | bool
"""Value type of confluent-kafka's options."""

ALLOWED = {
    "client.id",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "max.poll.records",
    "request.timeout.ms",
    "session.timeout.ms",
    "socket.timeout.ms",
    "metadata.max.age.ms",
}
FETCH_WAIT_MS = "10"
"""`fetch.max.wait.ms` of Spark's consumers: how long the broker holds a request at the log's end. A broker handles the
requests of a connection in order, and Spark requests the log's ends after a prefetch: with the default of 500 ms an
epoch that read to the log's end waited half a second for each partition of a task."""

_JAVA_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def check_client_settings(kafka: KafkaSettings) -> None:
    """Reject client keys that could load code, connect elsewhere or change positions.

    Raises:
        DefinitionError: A key is not on the allow-list, or credentials and security protocol do not match.
    """
    for key in sorted(set(kafka.client) - ALLOWED):
        msg = f"`kafka.client`: expected one of {', '.join(sorted(ALLOWED))}, got `{key}`."
        raise DefinitionError(msg)
    if kafka.mechanism and (not kafka.user or read_password(kafka) is None):
        msg = f"`kafka.mechanism` is {kafka.mechanism}: expected `kafka.user` and a password, got one of them or none."
        raise DefinitionError(msg + "\nHint: set CUTOVER_KAFKA__PASSWORD or `kafka.password_file`.")
    if kafka.protocol.startswith("SASL_") != (kafka.mechanism is not None):
        msg = f"`kafka.protocol` is {kafka.protocol}: expected `kafka.mechanism` with SASL_PLAINTEXT and SASL_SSL, and "
        raise DefinitionError(msg + f"with them alone, got {kafka.mechanism or 'none'}.")


def read_password(section: KafkaSettings | RegistrySettings, *, of: str = "kafka") -> str | None:
    """Read the password from a section of the settings, otherwise from its file; None without either.

    Raises:
        DefinitionError: The file cannot be read.
    """
    if section.password is not None:
        return section.password.get_secret_value()
    if section.password_file is None:
        return None
    try:
        return Path(section.password_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        msg = f"`{of}.password_file`: expected a readable file, got `{section.password_file}` ({reason})."
        raise DefinitionError(msg) from None


def make_librdkafka_options(kafka: KafkaSettings, bootstrap: str) -> dict[str, ClientOption]:
    """Build the options of confluent-kafka, reading the password from its file.

    Raises:
        DefinitionError: See `check_client_settings`.
    """
    check_client_settings(kafka)
    options: dict[str, ClientOption] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": kafka.protocol,
        **kafka.client,
    }
    password = read_password(kafka)
    if kafka.mechanism and kafka.user and password is not None:
        options |= {"sasl.mechanism": kafka.mechanism, "sasl.username": kafka.user, "sasl.password": password}
    if kafka.ca_file is not None:
        options["ssl.ca.location"] = str(kafka.ca_file)
    return options


def make_spark_options(kafka: KafkaSettings, bootstrap: str) -> dict[str, str]:
    """Build the options of Spark's Kafka source, in which keys of the Java client have the prefix `kafka.`.

    Raises:
        DefinitionError: See `check_client_settings`.
    """
    check_client_settings(kafka)
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.security.protocol": kafka.protocol}
    options["kafka.fetch.max.wait.ms"] = FETCH_WAIT_MS
    options |= {f"kafka.{key}": value for key, value in kafka.client.items()}
    password = read_password(kafka)
    if kafka.mechanism and kafka.user and password is not None:
        options["kafka.sasl.mechanism"] = kafka.mechanism
        options["kafka.sasl.jaas.config"] = (
            f"{_JAVA_LOGIN[kafka.mechanism]} required username={_quote_text(kafka.user)}"
            f" password={_quote_text(password)};"
        )
    if kafka.ca_file is not None:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(kafka.ca_file)}
    return options


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def bootstrap_servers(settings: Settings) -> str:
    """Return the cluster's address: from the settings, otherwise that of the broker which `cutover up` started.

    Raises:
        LogError: There is neither.
    """
    if settings.kafka.bootstrap_servers:
        return settings.kafka.bootstrap_servers
    try:
        return str(json.loads((settings.run_dir / "broker.json").read_text(encoding="utf-8"))["bootstrap_servers"])
    except (OSError, ValueError, KeyError):
        msg = "Kafka: expected `kafka.bootstrap_servers` or a broker of this installation, got neither."
        raise LogError(msg + "\nHint: `cutover up` starts a broker.", runbook="KafkaUnreachable") from None
