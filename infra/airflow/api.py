"""Client of Airflow's REST API that triggers runs, waits for them, and reads Airflow's health."""

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt, wait_fixed

from cutover.clock import poll_until
from cutover.errors import CutoverError

if TYPE_CHECKING:
    import httpx

COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")
FINAL = ("success", "failed")
POLL_SECONDS = 1.0
MAX_ATTEMPTS = 5
UNAUTHORIZED = 401
NOT_FOUND = 404
CONFLICT = 409
SERVER_ERROR = 500


class AirflowError(CutoverError):
    """Failed request to Airflow: it was rejected, got no answer, or a run did not end in time."""


class Api:
    """Client of one Airflow for one user, with a token that is fetched on demand and renewed when it expires.

    Args:
        address: `http://host:port`, without a path.
        user: Name of a user.
        password: Their password.
    """

    def __init__(self, address: str, *, user: str, password: str) -> None:
        import httpx  # noqa: PLC0415 -- `cutover status` does not need it if Airflow is not running

        self.address = address
        self._failure = httpx.HTTPError
        self._login = {"username": user, "password": password}
        self._token: str | None = None
        # A proxy in the environment must not be used for loopback addresses.
        self._http = httpx.Client(base_url=address, trust_env=False, timeout=30)

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Read one JSON object from `/api/v2/<path>`.

        Raises:
            AirflowError: The response is not 2xx, or there is none.
        """
        return self._request("GET", path, params=parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object from `body`, and return it."""
        return self._request("POST", path, json=dict(body))

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change the fields in `body`, and return the changed object."""
        return self._request("PATCH", path, json=dict(body))

    def health(self) -> dict[str, str]:
        """Read the health of each component, `healthy` or another word; empty if Airflow does not answer."""
        try:
            components = self._http.get("/api/v2/monitor/health", timeout=5).raise_for_status().json()
        except (self._failure, ValueError):
            return {}
        return {name: str((components.get(name) or {}).get("status")) for name in COMPONENTS}

    def is_healthy(self) -> bool:
        """Check that all four components are healthy."""
        return set(self.health().values()) == {"healthy"}

    def has_dag(self, dag_id: str) -> bool:
        """Check that Airflow has parsed a DAG with this id."""
        return self._send("GET", f"dags/{quote(dag_id)}").status_code != NOT_FOUND

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a run and return its id.

        Raises:
            AirflowError: There is no such DAG, or it rejects this `conf`.
        """
        run_id = f"manual__{uuid.uuid4()}"  # chosen here, so that a repeated request creates one run
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
        path = f"dags/{quote(dag_id)}/dagRuns"
        response = self._send("POST", path, json=body)
        if response.status_code != CONFLICT:
            self._check("POST", path, response)
        return run_id

    def state(self, dag_id: str, run_id: str) -> str:
        """Read the state of a run: queued, running, success, failed."""
        return str(self.get(f"dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")["state"])

    def wait(self, dag_id: str, run_id: str, timeout: float, *, on_state: Callable[[str], None] | None = None) -> str:
        """Wait for the end of a run, and return its final state: success or failed.

        Args:
            dag_id: The DAG.
            run_id: Id that `trigger` returned.
            timeout: Seconds.
            on_state: Called with the state about every second.

        Raises:
            AirflowError: The run has not ended in time.
        """
        state = ""

        def find_final_state() -> str | None:
            nonlocal state
            state = self.state(dag_id, run_id)
            if state not in FINAL and on_state is not None:
                on_state(state)
            return state if state in FINAL else None

        if poll_until(find_final_state, timeout=timeout, interval=POLL_SECONDS) is None:
            msg = f"Run `{run_id}` of `{dag_id}`: expected an end within {timeout:.0f} s, got state {state}.\n"
            raise AirflowError(msg + f"Hint: {self.address}/dags/{dag_id}/runs/{run_id}")
        return state

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._send(method, path, **arguments)
        self._check(method, path, response)
        value = response.json() if response.content else {}
        return value if isinstance(value, dict) else {"value": value}

    def _check(self, method: str, path: str, response: "httpx.Response") -> None:
        if not response.is_success:
            msg = f"Airflow at {self.address}: {method} {path}: expected 2xx, got {response.status_code}: "
            raise AirflowError(msg + response.text[:500])

    def _send(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        """Send a request; retry it without an answer and on server errors, such as a locked database.

        All requests of this client are idempotent: they read, set fields, or create an object under a given id.
        """
        retry = Retrying(
            retry=retry_if_exception_type(self._failure)
            | retry_if_result(lambda response: response.status_code >= SERVER_ERROR),
            stop=stop_after_attempt(MAX_ATTEMPTS),
            wait=wait_fixed(POLL_SECONDS),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        )
        try:
            response: httpx.Response = retry(self._request_with_token, method, path, **arguments)
            if response.status_code == UNAUTHORIZED:  # the token has expired
                self._token = None
                response = retry(self._request_with_token, method, path, **arguments)
        except self._failure as error:
            msg = f"Airflow at {self.address}: expected an answer to {method} {path}, got {error}."
            raise AirflowError(msg + "\nHint: `cutover status` shows what runs; `cutover up` starts it.") from error
        return response

    def _request_with_token(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        if self._token is None:
            response = self._http.post("/auth/token", json=self._login)
            if response.status_code >= SERVER_ERROR:
                return response
            if not response.is_success:
                msg = f"Airflow at {self.address}: expected a token for `{self._login['username']}`, "
                raise AirflowError(msg + f"got {response.status_code}.\nHint: the passwords file has changed.")
            self._token = str(response.json()["access_token"])
        headers = {"Authorization": f"Bearer {self._token}"}
        return self._http.request(method, f"/api/v2/{path}", headers=headers, **arguments)
