"""Reasons why a cluster is unreachable, detected from the server that answers at its address."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient
from cutover.log.reachability import Protocol, find_obstacle, parse_addresses
from cutover.settings import KafkaSettings, Settings

Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Serve on a free port and answer each received chunk until the connection is closed."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    while chunk := connection.recv(4096):
                        answer(connection, chunk)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def as_kafka(connection: socket.socket, request: bytes) -> None:
    body = request[8:12] + struct.pack(">hi", 0, 0)
    connection.sendall(struct.pack(">i", len(body)) + body)


def as_kafka_with_sasl(connection: socket.socket, request: bytes) -> None:
    if struct.unpack(">h", request[4:6]) == (17,):
        body = request[8:12] + struct.pack(">hih", 33, 1, 5) + b"PLAIN"
        connection.sendall(struct.pack(">i", len(body)) + body)
    else:
        as_kafka(connection, request)


def as_kafka_on_a_bad_line(connection: socket.socket, request: bytes) -> None:
    if struct.unpack(">h", request[4:6]) == (18,):
        as_kafka(connection, request)
    else:
        connection.close()


def as_http(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def as_tls(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"\x15\x03\x01\x00\x02\x02\x46")
    connection.close()


def as_ssh(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


def as_nobody(_connection: socket.socket, _: bytes) -> None:
    return


@pytest.mark.parametrize(
    ("answer", "protocol", "sentence"),
    [
        (as_http, "PLAINTEXT", "expected a broker, a server that speaks HTTP answers."),
        (as_http, "SASL_SSL", "expected a broker, a server that speaks HTTP answers."),
        (as_ssh, "PLAINTEXT", "expected a broker, a server that speaks another protocol answers."),
        (as_tls, "PLAINTEXT", "expected `kafka.protocol` PLAINTEXT, the port speaks TLS: `SSL` or `SASL_SSL`."),
        (as_kafka, "SSL", "the port speaks Kafka without TLS: `PLAINTEXT` or `SASL_PLAINTEXT`."),
        (as_kafka_with_sasl, "PLAINTEXT", "the port requires authentication: `SASL_PLAINTEXT`."),
    ],
)
def test_server_that_answers_is_named_and_the_obstacle_is_permanent(
    answer: Answer, protocol: Protocol, sentence: str
) -> None:
    with server(answer) as address:
        obstacle = find_obstacle(address, protocol)

    assert obstacle is not None
    assert obstacle.message.startswith(f"Kafka at {address}: ")
    assert obstacle.message.endswith(sentence)
    assert obstacle.is_permanent


@pytest.mark.parametrize(
    ("answer", "protocol"),
    [
        (as_kafka, "PLAINTEXT"),
        (as_kafka_on_a_bad_line, "PLAINTEXT"),
        (as_kafka_with_sasl, "SASL_PLAINTEXT"),
        (as_tls, "SSL"),
        (as_nobody, "PLAINTEXT"),
    ],
)
def test_address_that_may_answer_is_no_obstacle(answer: Answer, protocol: Protocol) -> None:
    with server(answer) as address:
        assert find_obstacle(address, protocol) is None
        assert find_obstacle(f"127.0.0.1:9,{address}", protocol) is None


def test_server_of_http_that_python_has_is_known() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        obstacle = find_obstacle(f"127.0.0.1:{served.server_port}", "PLAINTEXT")
        served.shutdown()
        thread.join()

    assert obstacle is not None
    assert "speaks HTTP" in obstacle.message


def test_port_without_a_server_and_name_without_a_host_pass_by_themselves() -> None:
    refused, unknown = find_obstacle("127.0.0.1:9", "PLAINTEXT"), find_obstacle("nosuch.invalid:9092", "PLAINTEXT")

    assert refused is not None
    assert unknown is not None
    assert "127.0.0.1:9: expected a broker, the connection was refused" in refused.message
    assert "expected a host that resolves, `nosuch.invalid` is unknown" in unknown.message
    assert not refused.is_permanent
    assert not unknown.is_permanent


def test_every_address_of_a_cluster_has_its_own_sentence() -> None:
    with server(as_http) as address:
        obstacle = find_obstacle(f"127.0.0.1:9,nosuch.invalid:1,{address}", "PLAINTEXT")

    assert obstacle is not None
    refused, unknown, other = obstacle.message.splitlines()
    assert ("refused" in refused, "is unknown" in unknown, "HTTP" in other) == (True, True, True)
    assert not obstacle.is_permanent


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("broker:9092", (("broker", 9092),)),
        ("a:1, b:2", (("a", 1), ("b", 2))),
        ("PLAINTEXT://broker:9092", (("broker", 9092),)),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_addresses_are_hosts_with_ports(bootstrap: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert parse_addresses(bootstrap) == addresses


@pytest.mark.parametrize(
    "bootstrap", ["broker", "a:1,b", "broker:", ":9092", "broker:0", "broker:70000", "broker:x", "::1:9092", "", "a:1,"]
)
def test_address_without_a_port_is_rejected_before_any_request(bootstrap: str) -> None:
    with pytest.raises(DefinitionError, match=r"`kafka\.bootstrap_servers`: expected `host:port`"):
        parse_addresses(bootstrap)


@pytest.mark.parametrize(
    ("bootstrap", "kind", "sentence"),
    [
        ("localhost", DefinitionError, "expected `host:port`"),
        ("127.0.0.1:9", LogError, "the connection was refused"),
        ("nosuch.invalid:9092", LogError, "`nosuch.invalid` is unknown"),
        ("[::1]:9", LogError, r"Kafka at \[::1\]:9: "),
    ],
)
def test_client_reports_the_reason_instead_of_a_timeout(bootstrap: str, kind: type[Exception], sentence: str) -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=bootstrap, timeout_seconds=0.5))

    with pytest.raises(kind, match=sentence):
        LogClient(settings).topics()


def test_client_waits_for_nothing_where_http_answers() -> None:
    with server(as_http) as address:
        client = LogClient(Settings(kafka=KafkaSettings(bootstrap_servers=address, timeout_seconds=600)))
        with pytest.raises(LogError, match="speaks HTTP") as refusal:
            client.describe("t")

    assert refusal.value.runbook == "KafkaUnreachable"


def test_client_names_a_server_of_http_that_serves_one_connection_at_a_time() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        address = f"127.0.0.1:{served.server_port}"
        client = LogClient(Settings(kafka=KafkaSettings(bootstrap_servers=address, timeout_seconds=60)))
        time.sleep(0.5)  # a client that connects at once would occupy the server by now
        with pytest.raises(LogError, match="speaks HTTP"):
            client.topics()
        served.shutdown()
        thread.join()
