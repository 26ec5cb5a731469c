"""Airflow's API server alone, with its database and the plugin, over an installation: for what needs no scheduler."""

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from cutover.infra.airflow import instance
from cutover.infra.processes import family, supervisor
from cutover.process import identify
from cutover.settings import Settings
from tests.support.suite.until import until

START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of the server, to the byte."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running server, its users' tokens, and its log."""

    address: str
    port: int
    tokens: dict[str, str]
    log: Path

    def send(self, path: str, *, user: str | None = "viewer", method: str = "GET", cookie: bool = False) -> Answer:
        """Send one request with its path unchanged; nothing normalizes it on the way."""
        headers = {}
        if user is not None:
            token = self.tokens[user]
            headers = {"Cookie": f"_token={token}"} if cookie else {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response.read(), names)
        finally:
            connection.close()


@contextmanager
def running_api_server(settings: Settings) -> Iterator[ApiServer]:
    """Start the server, log both users in, and end it."""
    free_ports = supervisor.choose_new_ports()
    variables = instance.environment(settings, free_ports, inherited=os.environ)
    passwords = {user: instance.password(settings, user) for user in instance.USERS}
    instance.migrate(settings, variables)
    log = instance.locate_airflow_home(settings) / "api-server.log"
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "api-server"],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = instance.format_airflow_address(free_ports)
    try:
        with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:

            def log_in() -> dict[str, str] | None:
                try:
                    responses = {
                        user: client.post("/auth/token", json=_login(user, it)) for user, it in passwords.items()
                    }
                except httpx.HTTPError:
                    return None
                return {user: str(answer.json()["access_token"]) for user, answer in responses.items()}

            tokens = until(log_in, within=START_SECONDS) or {}
        yield ApiServer(address, free_ports.airflow, tokens, log)
    finally:
        leader = identify(process.pid)
        family.stop([] if leader is None else family.family(leader), timeout=20)
        process.wait(timeout=20)


def _login(user: str, password: str) -> dict[str, str]:
    return {"username": user, "password": password}
