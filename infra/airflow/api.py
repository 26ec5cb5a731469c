"""A small client of Airflow's REST API: enough to trigger a run, watch it, and ask how Airflow is."""

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
PATIENCE = 5
UNAUTHORIZED = 401
UNKNOWN = 404
EXISTS = 409
BROKEN = 500


class AirflowError(CutoverError):
    """Airflow refused a request, does not answer, or did not finish in time."""


class Api:
    """Speaks to one Airflow as one user; fetches its token when first needed and again when it expires.

    Args:
        address: `http://host:port`, without a path.
        user: Name of a user.
        password: Their password.
    """

    def __init__(self, address: str, *, user: str, password: str) -> None:
        import httpx  # noqa: PLC0415 -- `cutover status` asks nobody where no Airflow runs

        self.address = address
        self._failure = httpx.HTTPError
        self._login = {"username": user, "password": password}
        self._token: str | None = None
        # A proxy of the environment has no business with loopback addresses.
        self._http = httpx.Client(base_url=address, trust_env=False, timeout=30)

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Ask `/api/v2/<path>` for one JSON object.

        Raises:
            AirflowError: The answer is not 2xx, or there is none.
        """
        return self._ask("GET", path, params=parameters)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create what `body` says, and return it."""
        return self._ask("POST", path, json=dict(body))

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change what `body` says, and return the result."""
        return self._ask("PATCH", path, json=dict(body))

    def health(self) -> dict[str, str]:
        """Return component -> `healthy`, or another word of Airflow's; empty when nobody answers."""
        try:
            found = self._http.get("/api/v2/monitor/health", timeout=5).raise_for_status().json()
        except (self._failure, ValueError):
            return {}
        return {name: str((found.get(name) or {}).get("status")) for name in COMPONENTS}

    def is_healthy(self) -> bool:
        """Return whether all four components are well."""
        return set(self.health().values()) == {"healthy"}

    def has_dag(self, dag_id: str) -> bool:
        """Return whether Airflow has read a DAG of this name."""
        return self._send("GET", f"dags/{quote(dag_id)}").status_code != UNKNOWN

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run and return its id.

        Raises:
            AirflowError: There is no such DAG, or it does not take this `conf`.
        """
        run_id = f"manual__{uuid.uuid4()}"  # named by us: asked twice, the run is there once
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
        path = f"dags/{quote(dag_id)}/dagRuns"
        answer = self._send("POST", path, json=body)
        if answer.status_code != EXISTS:
            self._refuse("POST", path, answer)
        return run_id

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success, failed."""
        return str(self.get(f"dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")["state"])

    def wait(self, dag_id: str, run_id: str, within: float, *, tell: Callable[[str], None] | None = None) -> str:
        """Return how a run ended: success or failed.

        Args:
            dag_id: The DAG.
            run_id: What `trigger` returned.
            within: Seconds.
            tell: Called with the state, about every second.

        Raises:
            AirflowError: It has not ended in time.
        """
        state = ""

        def look() -> str | None:
            nonlocal state
            state = self.state(dag_id, run_id)
            if state not in FINAL and tell is not None:
                tell(state)
            return state if state in FINAL else None

        if poll_until(look, within=within, every=POLL_SECONDS) is None:
            msg = f"Run `{run_id}` of `{dag_id}`: expected an end within {within:.0f} s, got state {state}.\n"
            raise AirflowError(msg + f"Hint: {self.address}/dags/{dag_id}/runs/{run_id}")
        return state

    def _ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        answer = self._send(method, path, **arguments)
        self._refuse(method, path, answer)
        value = answer.json() if answer.content else {}
        return value if isinstance(value, dict) else {"value": value}

    def _refuse(self, method: str, path: str, answer: "httpx.Response") -> None:
        if not answer.is_success:
            msg = f"Airflow at {self.address}: {method} {path}: expected 2xx, got {answer.status_code}: "
            raise AirflowError(msg + answer.text[:500])

    def _send(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        """Return the answer; ask again where there is none, or where Airflow's one database was locked for a while.

        Every request of ours may be made twice: it asks, says how something shall be, or makes something by its name.
        """
        retry = Retrying(
            retry=retry_if_exception_type(self._failure)
            | retry_if_result(lambda response: response.status_code >= BROKEN),
            stop=stop_after_attempt(PATIENCE),
            wait=wait_fixed(POLL_SECONDS),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        )
        try:
            answer: httpx.Response = retry(self._request_with_token, method, path, **arguments)
            if answer.status_code == UNAUTHORIZED:  # the token expired
                self._token = None
                answer = retry(self._request_with_token, method, path, **arguments)
        except self._failure as error:
            msg = f"Airflow at {self.address}: expected an answer to {method} {path}, got {error}."
            raise AirflowError(msg + "\nHint: `cutover status` shows what runs; `cutover up` starts it.") from error
        return answer

    def _request_with_token(self, method: str, path: str, **arguments: Any) -> "httpx.Response":
        if self._token is None:
            answer = self._http.post("/auth/token", json=self._login)
            if answer.status_code >= BROKEN:
                return answer
            if not answer.is_success:
                msg = f"Airflow at {self.address}: expected a token for `{self._login['username']}`, "
                raise AirflowError(msg + f"got {answer.status_code}.\nHint: the passwords file was changed since.")
            self._token = str(answer.json()["access_token"])
        headers = {"Authorization": f"Bearer {self._token}"}
        return self._http.request(method, f"/api/v2/{path}", headers=headers, **arguments)
