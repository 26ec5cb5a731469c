"""An S3-compatible server on loopback, in a separate process group, and settings whose lake is in it."""

import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutover.settings import Settings
from tests.support.servers.broker import stop_group
from tests.support.suite.until import until

SERVER = Path(".venv/share/cutover/s3-server/bin/moto_server")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with (tmp_path_factory.mktemp("store") / "server.log").open("wb") as log_file:
        command = [str(SERVER), "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True
        )
    try:
        until(lambda: _answers(port))
        yield address
    finally:
        stop_group(process)


@pytest.fixture
def store_settings(kafka_settings: Settings, store: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings with a new bucket as lake; the keys are in the environment, as in production."""
    variables = {
        "AWS_ENDPOINT_URL": store,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{kafka_settings.home.name}".replace("_", "-")
    urllib.request.urlopen(urllib.request.Request(f"{store}/{bucket}", method="PUT")).close()  # noqa: S310 -- loopback
    return kafka_settings.model_copy(update={"lake": f"s3://{bucket}/cutover"})


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
