import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from cutover.infra.airflow import instance as airflow_api
from cutover.infra.airflow.instance import AirflowError, Api

NONE = "-"


class Airflow(HTTPServer):
    """Fake Airflow API that answers with the configured statuses in order, then successfully, and records requests."""

    statuses: list[int]
    requests: list[tuple[str, str, dict[str, object]]]


class Handler(BaseHTTPRequestHandler):
    server: Airflow

    def _answer(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        is_login = self.path == "/auth/token"
        status = 201 if is_login or not self.server.statuses else self.server.statuses.pop(0)
        if not is_login:
            self.server.requests.append((self.command, self.path, body))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": "x", "state": "success", **body}).encode())

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815 -- the names of http.server

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    monkeypatch.setattr(airflow_api, "POLL_SECONDS", 0.01)
    server = Airflow(("127.0.0.1", 0), Handler)
    server.statuses, server.requests = [], []
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(airflow: Airflow) -> Api:
    return Api(f"http://127.0.0.1:{airflow.server_port}", user="me", password=NONE)


def test_a_locked_database_is_retried(airflow: Airflow, client: Api) -> None:
    airflow.statuses = [500, 500]

    assert client.patch("dags/a", {"is_paused": False}) == {"access_token": "x", "state": "success", "is_paused": False}
    assert len(airflow.requests) == 3


def test_a_persistent_failure_is_reported(airflow: Airflow, client: Api) -> None:
    airflow.statuses = [503] * 9

    with pytest.raises(AirflowError, match="GET dags/a: expected 2xx, got 503"):
        client.get("dags/a")


def test_a_run_whose_response_was_lost_is_started_once(airflow: Airflow, client: Api) -> None:
    airflow.statuses = [500, 409]

    run_id = client.trigger("a", {"epoch": 3})

    assert [body["dag_run_id"] for _, _, body in airflow.requests] == [run_id, run_id]


def test_a_rejected_run_is_not_started(airflow: Airflow, client: Api) -> None:
    airflow.statuses = [404]

    with pytest.raises(AirflowError, match="POST dags/a/dagRuns: expected 2xx, got 404"):
        client.trigger("a")


def test_an_unreachable_server_is_reported_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_api, "POLL_SECONDS", 0.01)

    with pytest.raises(AirflowError, match="`cutover up` starts it"):
        Api("http://127.0.0.1:1", user="me", password=NONE).get("dags/a")
