"""Why a cluster cannot be asked: each cause has a sentence of its own, found by plain connections within seconds.

The client alone only says that time is up, whether nothing listens, a name is unknown, or another server answers.
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

WITHIN_SECONDS = 1.5
"""How long a look at one address waits: for its name, for a connection, for an answer."""

_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65_535
_API_VERSIONS, _SASL_HANDSHAKE = 18, 17  # keys of requests
_UNSUPPORTED_SASL_MECHANISM = 33  # error code by which a listener with SASL rejects a mechanism; one without answers 34
_CORRELATION = 0x0D0A0D0A  # read as text it ends a line, so that a server of HTTP answers too
_TLS_ALERT = b"\x15\x03"
_LARGEST_ANSWER = 65_536

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class _Speaks(Enum):
    """What answers at an address."""

    KAFKA = "Kafka"
    AUTHENTICATED_KAFKA = "Kafka with SASL"
    TLS = "TLS"
    HTTP = "HTTP"
    OTHER = "another protocol"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why no address of a cluster can be asked."""

    message: str
    lasting: bool  # waiting changes nothing: a person has to change a setting


def parse_addresses(bootstrap: str) -> tuple[tuple[str, int], ...]:
    """Return host and port of each address.

    Raises:
        DefinitionError: One of them is not `host:port`.
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
    """Return why no address can be asked; None where one of them may answer.

    Raises:
        DefinitionError: An address is not `host:port`.
    """
    found = []
    for host, port in parse_addresses(bootstrap):
        obstacle = _look(host, port, protocol)
        if obstacle is None:
            return None
        found.append(obstacle)
    message = "\n".join(item.message for item in found)
    return Obstacle(message=message, lasting=all(item.lasting for item in found))


def make_obstacle_error(obstacle: Obstacle) -> LogError:
    """Return why a cluster cannot be asked."""
    hint = "the settings are `kafka.bootstrap_servers` and `kafka.protocol`" if obstacle.lasting else "is it started?"
    return LogError(f"{obstacle.message}\nHint: {hint}; `cutover status` shows the broker.", runbook="KafkaUnreachable")


def _look(host: str, port: int, protocol: Protocol) -> Obstacle | None:
    where = f"Kafka at {host}:{port}"
    if not _resolves(host, port):
        return Obstacle(
            message=f"{where}: expected a host that resolves, no name server knows `{host}`.", lasting=False
        )
    try:
        speaks = _listen(host, port)
    except ConnectionRefusedError:
        msg = f"{where}: expected a broker, the connection was refused: nothing listens on this port."
        return Obstacle(message=msg, lasting=False)
    except OSError:  # no way to the host, or no answer in time: the client goes on trying
        return None
    if speaks in {_Speaks.HTTP, _Speaks.OTHER}:
        return Obstacle(
            message=f"{where}: expected a broker, a server that speaks {speaks.value} answers.", lasting=True
        )
    return _compare_protocol(where, speaks, protocol)


def _compare_protocol(where: str, speaks: _Speaks, protocol: Protocol) -> Obstacle | None:
    is_plain = speaks in {_Speaks.KAFKA, _Speaks.AUTHENTICATED_KAFKA}
    if speaks is _Speaks.TLS and "SSL" not in protocol:
        wrong = "the port speaks TLS: `SSL` or `SASL_SSL`"
    elif is_plain and "SSL" in protocol:
        wrong = "the port speaks Kafka without TLS: `PLAINTEXT` or `SASL_PLAINTEXT`"
    elif speaks is _Speaks.AUTHENTICATED_KAFKA and protocol == "PLAINTEXT":
        wrong = "the port asks for a user: `SASL_PLAINTEXT`"
    else:
        return None
    return Obstacle(message=f"{where}: expected `kafka.protocol` {protocol}, {wrong}.", lasting=True)


def _resolves(host: str, port: int) -> bool:
    """Return whether a name is known; True too where no name server has answered yet."""
    unknown = threading.Event()

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            unknown.set()

    asking = threading.Thread(target=resolve, name="resolve", daemon=True)  # it may take half a minute
    asking.start()
    asking.join(WITHIN_SECONDS)
    return not unknown.is_set()


def _listen(host: str, port: int) -> _Speaks:
    """Return what answers a question that every broker answers without authentication.

    Raises:
        OSError: There is no connection, or no answer in time.
    """
    try:
        with socket.create_connection((host, port), timeout=WITHIN_SECONDS) as connection:
            answer = _ask(connection, _API_VERSIONS, b"")
            if _is_answer(answer):
                return _Speaks.AUTHENTICATED_KAFKA if _requires_sasl(connection) else _Speaks.KAFKA
    except TimeoutError:
        return _Speaks.NOTHING
    except ConnectionResetError:
        answer = b""
    if answer.startswith(b"HTTP/") or b"<html" in answer[:400].lower():
        return _Speaks.HTTP
    if answer.startswith(_TLS_ALERT) or (not answer and _shakes_hands(host, port)):
        return _Speaks.TLS
    return _Speaks.OTHER if answer else _Speaks.NOTHING


def _ask(connection: socket.socket, key: int, body: bytes, version: int = 0) -> bytes:
    """Send a request without a client's name; return the first part of what comes back, nothing if it was closed."""
    request = struct.pack(">hhih", key, version, _CORRELATION, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    return connection.recv(_LARGEST_ANSWER)


def _is_answer(answer: bytes) -> bool:
    return answer[4:8] == struct.pack(">i", _CORRELATION)


def _requires_sasl(connection: socket.socket) -> bool:
    """Return whether a broker states that its listener authenticates with SASL; a lost connection proves nothing."""
    try:
        answer = _ask(connection, _SASL_HANDSHAKE, struct.pack(">h", 0), version=1)  # a mechanism without a name
    except OSError:
        return False
    return _is_answer(answer) and answer[8:10] == struct.pack(">h", _UNSUPPORTED_SASL_MECHANISM)


def _shakes_hands(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent: only whether TLS is spoken
    try:
        with socket.create_connection((host, port), timeout=WITHIN_SECONDS) as connection:
            context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError:
        return True
    except OSError as error:
        return isinstance(error, ssl.SSLError) and "ALERT" in str(error).upper()  # such as one that wants a certificate
    return True
