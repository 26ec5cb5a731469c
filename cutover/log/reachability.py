"""Diagnosis of an unreachable cluster: plain connections find the cause within seconds.

The client reports only a timeout, no matter if no process listens, a host name is unknown, or another server responds.
"""

import re
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from cutover.errors import DefinitionError, LogError

TIMEOUT_SECONDS = 1.5
"""Timeout of name resolution, of connecting, and of a response, for each address."""

_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65_535
_API_VERSIONS, _SASL_HANDSHAKE = 18, 17  # API keys
_UNSUPPORTED_SASL_MECHANISM = 33  # error code of a listener with SASL for an unknown mechanism; without SASL it is 34
_CORRELATION = 0x0D0A0D0A  # line breaks in ASCII, so that an HTTP server responds too
_TLS_ALERT = b"\x15\x03"
_MAX_RESPONSE = 65_536

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class _Service(Enum):
    """Protocol of the service at an address."""

    KAFKA = "Kafka"
    AUTHENTICATED_KAFKA = "Kafka with SASL"
    TLS = "TLS"
    HTTP = "HTTP"
    OTHER = "another protocol"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Reason that no address of a cluster is usable."""

    message: str
    is_permanent: bool  # retrying is useless: a setting has to be changed


def parse_addresses(bootstrap: str) -> tuple[tuple[str, int], ...]:
    """Parse the host and port of each address.

    Raises:
        DefinitionError: An address is not `host:port`.
    """
    addresses = []
    for text in bootstrap.split(","):
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or not 0 < int(match["port"]) <= _LARGEST_PORT:
            msg = (
                f"Settings, `kafka.bootstrap_servers`: expected `host:port`, such as `broker:9092`, got `{text[:80]}`."
            )
            raise DefinitionError(msg)
        addresses.append((match["v6"] or match["host"], int(match["port"])))
    return tuple(addresses)


def find_obstacle(bootstrap: str, protocol: Protocol) -> Obstacle | None:
    """Find the reason that no address is usable; None if one of them may respond.

    Raises:
        DefinitionError: An address is not `host:port`.
    """
    obstacles = []
    for host, port in parse_addresses(bootstrap):
        obstacle = _check_address(host, port, protocol)
        if obstacle is None:
            return None
        obstacles.append(obstacle)
    message = "\n".join(item.message for item in obstacles)
    return Obstacle(message=message, is_permanent=all(item.is_permanent for item in obstacles))


def make_obstacle_error(obstacle: Obstacle) -> LogError:
    """Build the error of an unreachable cluster, with a hint."""
    hint = (
        "the settings are `kafka.bootstrap_servers` and `kafka.protocol`" if obstacle.is_permanent else "is it started?"
    )
    return LogError(f"{obstacle.message}\nHint: {hint}; `cutover status` shows the broker.", runbook="KafkaUnreachable")


def _check_address(host: str, port: int, protocol: Protocol) -> Obstacle | None:
    address = f"Kafka at {f'[{host}]' if ':' in host else host}:{port}"
    if not _resolves(host, port):
        return Obstacle(message=f"{address}: expected a host that resolves, `{host}` is unknown.", is_permanent=False)
    try:
        speaks = _identify_service(host, port)
    except ConnectionRefusedError:
        msg = f"{address}: expected a broker, the connection was refused: no process listens on this port."
        return Obstacle(message=msg, is_permanent=False)
    except OSError:  # no route to the host, or a timeout: the client keeps retrying
        return None
    if speaks in {_Service.HTTP, _Service.OTHER}:
        return Obstacle(
            message=f"{address}: expected a broker, a server that speaks {speaks.value} answers.", is_permanent=True
        )
    return _compare_protocol(address, speaks, protocol)


def _compare_protocol(address: str, speaks: _Service, protocol: Protocol) -> Obstacle | None:
    is_plain = speaks in {_Service.KAFKA, _Service.AUTHENTICATED_KAFKA}
    if speaks is _Service.TLS and "SSL" not in protocol:
        wrong = "the port speaks TLS: `SSL` or `SASL_SSL`"
    elif is_plain and "SSL" in protocol:
        wrong = "the port speaks Kafka without TLS: `PLAINTEXT` or `SASL_PLAINTEXT`"
    elif speaks is _Service.AUTHENTICATED_KAFKA and protocol == "PLAINTEXT":
        wrong = "the port requires authentication: `SASL_PLAINTEXT`"
    else:
        return None
    return Obstacle(message=f"{address}: expected `kafka.protocol` {protocol}, {wrong}.", is_permanent=True)


def _resolves(host: str, port: int) -> bool:
    """Return whether a host name resolves; True if no name server has responded in time."""
    unknown = threading.Event()

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            unknown.set()

    resolver = threading.Thread(target=resolve, name="resolve", daemon=True)  # it may take half a minute
    resolver.start()
    resolver.join(TIMEOUT_SECONDS)
    return not unknown.is_set()


def _identify_service(host: str, port: int) -> _Service:
    """Identify the protocol of a service by a request that every broker answers without authentication.

    Raises:
        OSError: There is no connection, or no response in time.
    """
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as connection:
            answer = _request(connection, _API_VERSIONS, b"")
            if _is_answer(answer):
                return _Service.AUTHENTICATED_KAFKA if _requires_sasl(connection) else _Service.KAFKA
    except TimeoutError:
        return _Service.NOTHING
    except ConnectionResetError:
        answer = b""
    if answer.startswith(b"HTTP/") or b"<html" in answer[:400].lower():
        return _Service.HTTP
    if answer.startswith(_TLS_ALERT) or (not answer and _accepts_tls(host, port)):
        return _Service.TLS
    return _Service.OTHER if answer else _Service.NOTHING


def _request(connection: socket.socket, key: int, body: bytes, version: int = 0) -> bytes:
    """Send a request without a client id; return the first bytes of the response, empty if the connection closed."""
    request = struct.pack(">hhih", key, version, _CORRELATION, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    return connection.recv(_MAX_RESPONSE)


def _is_answer(answer: bytes) -> bool:
    return answer[4:8] == struct.pack(">i", _CORRELATION)


def _requires_sasl(connection: socket.socket) -> bool:
    """Return whether the listener requires SASL; False if the connection is lost, which proves nothing."""
    try:
        answer = _request(connection, _SASL_HANDSHAKE, struct.pack(">h", 0), version=1)  # an empty mechanism name
    except OSError:
        return False
    return _is_answer(answer) and answer[8:10] == struct.pack(">h", _UNSUPPORTED_SASL_MECHANISM)


def _accepts_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only a handshake, no data is sent
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as connection:
            context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError:
        return True
    except OSError as error:
        # An alert is a TLS response, too, such as that of a server that requires a client certificate.
        return isinstance(error, ssl.SSLError) and "ALERT" in str(error).upper()
    return True
