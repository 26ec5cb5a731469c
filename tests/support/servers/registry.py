"""A schema registry of a test's own: a small server with the part of Confluent's API that is used, or a real one.

`CUTOVER_TEST_REGISTRY` names the address of a real registry that runs already, such as Apicurio's `/apis/ccompat/v7`.
"""

import base64
import ipaddress
import json
import os
import ssl
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

REAL = "CUTOVER_TEST_REGISTRY"


@dataclass
class Registry:
    """Registry that runs, with what tests change and see of it."""

    url: str
    subject: str = field(default_factory=lambda: f"s-{uuid.uuid4().hex[:8]}")
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)  # of all requests
    login: str | None = None  # `user:password` that it requires
    status: int | None = None  # of every answer; None: as it should be
    body: bytes | None = None  # of every answer; None: as it should be

    def register(self, schema: Any, *, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """Register a schema and return its id."""
        return self._register(self.subject, schema, kind, references or [])

    def register_as(self, subject: str, schema: Any) -> int:
        """Register a schema as another subject, to which others may refer."""
        return self._register(subject, schema, "AVRO", [])

    def _register(self, subject: str, schema: Any, kind: str, references: list[dict[str, Any]]) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        content: dict[str, Any] = {"schema": text, "references": references}
        content |= {} if kind == "AVRO" else {"schemaType": kind}
        request = urllib.request.Request(  # noqa: S310 -- our own server
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(content).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- our own server
            return int(json.loads(answer.read())["id"])


@contextmanager
def running_registry() -> Iterator[Registry]:
    """Give a registry while the block runs."""
    real = os.environ.get(REAL)
    if real:
        yield Registry(url=real)
        return
    with small_registry() as registry:
        yield registry


@contextmanager
def small_registry(certificate: Path | None = None) -> Iterator[Registry]:
    """Give the small server while the block runs, whose answers a test can change.

    Args:
        certificate: PEM file with the certificate and the key of TLS; None: without TLS.
    """
    registry = Registry(url="")

    class Handler(_Handler):
        of = registry

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_certificate(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1, which signs itself, with its key; return the PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(addresses, critical=False).sign(key, hashes.SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / f"{certificate.serial_number}.pem"
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    return path


class _Handler(BaseHTTPRequestHandler):
    of: Registry

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer for an id, or for a version of a subject."""
        self.of.paths.append(self.path)
        if self._is_rejected():
            return
        parts = self.path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            self._answer_schema(self.of.schemas.get(int(parts[2])), 40403)
            return
        versions = [item for item in self.of.schemas.values() if item["subject"] == parts[1]]
        version = int(parts[3])
        self._answer_schema(versions[version - 1] if version <= len(versions) else None, 40402)

    def do_POST(self) -> None:
        """Register a schema."""
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = max(self.of.schemas, default=0) + 1
        self.of.schemas[number] = {"subject": self.path.split("/")[2], **content}
        self._answer(200, {"id": number})

    def _is_rejected(self) -> bool:
        expected = self.of.login and "Basic " + base64.b64encode(self.of.login.encode()).decode()
        if expected and self.headers["Authorization"] != expected:
            self._answer(401, {"error_code": 401})
            return True
        if self.of.status is not None or self.of.body is not None:
            self._send(self.of.status or 200, self.of.body or b"{}")
            return True
        return False

    def _answer_schema(self, schema: dict[str, Any] | None, error_code: int) -> None:
        if schema is None:
            self._answer(404, {"error_code": error_code, "message": "not found"})
        else:
            self._answer(200, {name: value for name, value in schema.items() if name != "subject"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
