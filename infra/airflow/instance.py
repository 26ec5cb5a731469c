"""Airflow instance on one machine: its environment, secrets, database, four processes and samples, and its REST API.

The demonstration's samples have DAGs always, the others after they are turned on. A file of the installation stores
which samples are on. The DAG files read it at each parse, without a restart.

The client of the REST API triggers runs, waits for them, and reads Airflow's health.
"""

import json
import os
import secrets
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt, wait_fixed

from cutover import files
from cutover.clock import poll_until
from cutover.errors import CutoverError, DefinitionError
from cutover.infra.processes.supervisor import LOOPBACK, Ports, Program
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

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


__all__ = ["AirflowError", "Api", "api", "environment", "format_airflow_address", "list_airflow_programs", "migrate"]

GROUP = "airflow"
USERS = {"admin": "admin", "viewer": "viewer"}  # user -> role
ADMIN = "admin"
REPOSITORY = Path(__file__).resolve().parents[2]
DAGS = REPOSITORY / "dags"
SPARK_POOL = "spark"
MIGRATE_SECONDS = 300
REFRESH_SECONDS = 10
"""Interval of the check for changed definitions, which are parsed immediately."""

PARSE_SECONDS = 900
"""Interval between two parses of a DAG file if no definition has changed."""

IDLE_SLEEP_SECONDS = "2"
"""Interval between two loops of an idle scheduler."""

COMMANDS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}


def locate_airflow_home(settings: Settings) -> Path:
    """Return AIRFLOW_HOME below the installation's home; it need not exist."""
    return settings.home.resolve() / "airflow"


def format_airflow_address(ports: Ports) -> str:
    """Return `http://127.0.0.1:<port>`, the address of UI and API."""
    return f"http://{LOOPBACK}:{ports.airflow}"


def passwords_file(settings: Settings) -> Path:
    """Return the path of the file (mode 0600) with the users' passwords as JSON."""
    return locate_airflow_home(settings) / "passwords.json"


def password(settings: Settings, user: str = ADMIN) -> str:
    """Return a user's password; all passwords are generated on the first call."""
    path = passwords_file(settings)
    passwords = files.read_json_file(path)
    if passwords is None or not passwords.keys() >= USERS.keys():
        passwords = {name: secrets.token_urlsafe(18) for name in USERS}
        files.write_json(path, passwords)
    return str(passwords[user])


def api(settings: Settings, ports: Ports) -> Api:
    """Make a client for the administrator, whose password is generated on the first call."""
    return Api(format_airflow_address(ports), user=ADMIN, password=password(settings))


def list_airflow_programs() -> tuple[Program, ...]:
    """List Airflow's four processes."""
    return tuple(
        Program(name=name, group=GROUP, command=(sys.executable, "-m", "airflow", *arguments))
        for name, arguments in COMMANDS.items()
    )


def environment(settings: Settings, ports: Ports, *, inherited: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of all Airflow processes, and so of all tasks.

    Args:
        settings: Settings of the installation; its home, definitions and cluster are set as absolute `CUTOVER_*`.
        ports: Port of the API.
        inherited: Environment of the caller; variables of another Airflow are left out.
    """
    retained = {name: value for name, value in inherited.items() if not name.startswith("AIRFLOW")}
    # The triggerer imports the trigger by its module name; only parsing and tasks add the DAG folder to the path.
    path = os.pathsep.join(filter(None, [str(DAGS), retained.get("PYTHONPATH")]))
    variables = _cutover_variables(settings) | _privacy_variables(retained) | airflow_variables(settings, ports)
    return retained | {"PYTHONPATH": path} | variables


def airflow_variables(settings: Settings, ports: Ports) -> dict[str, str]:
    """Make Airflow's own variables (`AIRFLOW_HOME` and `AIRFLOW__SECTION__KEY`)."""
    home = locate_airflow_home(settings)
    sections = {
        "CORE": {
            "DAGS_FOLDER": str(DAGS),
            "PLUGINS_FOLDER": str(DAGS / "plugins" if (DAGS / "plugins").is_dir() else home / "plugins"),
            "EXECUTOR": "LocalExecutor",
            "PARALLELISM": "4",
            "LOAD_EXAMPLES": "False",
            "DAGS_ARE_PAUSED_AT_CREATION": "False",
            "EXECUTION_API_SERVER_URL": f"{format_airflow_address(ports)}/execution/",
            "SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords_file(settings)),
        },
        "DATABASE": {"SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}"},
        "API": {
            "HOST": LOOPBACK,
            "PORT": str(ports.airflow),
            "BASE_URL": format_airflow_address(ports),
            "WORKERS": "1",
        },
        "API_AUTH": {"JWT_SECRET": jwt_secret(settings)},
        "LOGGING": {
            "BASE_LOG_FOLDER": str(home / "logs"),
            "FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
            "FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        },
        "DAG_PROCESSOR": {
            "DAG_BUNDLE_CONFIG_LIST": _bundles(home),
            "REFRESH_INTERVAL": str(REFRESH_SECONDS),
            "BUNDLE_REFRESH_CHECK_INTERVAL": str(REFRESH_SECONDS),
            "MIN_FILE_PROCESS_INTERVAL": str(PARSE_SECONDS),
        },
        "SCHEDULER": {"SCHEDULER_IDLE_SLEEP_TIME": IDLE_SLEEP_SECONDS},
        "METRICS": _metrics_section(settings.metrics.airflow_port),
        "USAGE_DATA_COLLECTION": {"ENABLED": "False"},
    }
    variables = {f"AIRFLOW__{s}__{key}": value for s, keys in sections.items() for key, value in keys.items()}
    return {"AIRFLOW_HOME": str(home)} | variables


def _bundles(home: Path) -> str:
    """Encode the only DAG bundle, whose files are touched when a definition changes, for Airflow's setting."""
    kwargs = {"source": str(DAGS), "path": str(home / "dags"), "refresh_interval": REFRESH_SECONDS}
    bundle = {"name": "dags-folder", "classpath": "cutover.infra.airflow.bundle.DefinitionsBundle", "kwargs": kwargs}
    return json.dumps([bundle])


def _metrics_section(port: int | None) -> dict[str, str]:
    """Make the section that sends Airflow's metrics to a local collector; without a port, none are sent."""
    if port is None:
        return {"OTEL_ON": "False", "STATSD_ON": "False"}
    collector = {"OTEL_ON": "True", "OTEL_HOST": LOOPBACK, "OTEL_PORT": str(port), "OTEL_SSL_ACTIVE": "False"}
    return {"STATSD_ON": "False", "OTEL_INTERVAL_MILLISECONDS": "15000", **collector}


def _cutover_variables(settings: Settings) -> dict[str, str]:
    variables = {"CUTOVER_HOME": str(settings.home.resolve()), "CUTOVER_PIPELINES": str(settings.pipelines.resolve())}
    if settings.kafka.bootstrap_servers:
        variables["CUTOVER_KAFKA__BOOTSTRAP_SERVERS"] = settings.kafka.bootstrap_servers
    return variables


def _privacy_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Make the variables that turn off telemetry of tools, and proxies for loopback calls."""
    no_proxy = ",".join(filter(None, [inherited.get("no_proxy") or inherited.get("NO_PROXY"), LOOPBACK, "localhost"]))
    telemetry = {"SCARF_ANALYTICS": "false", "DO_NOT_TRACK": "1", "GX_ANALYTICS_ENABLED": "false"}
    return telemetry | {"NO_PROXY": no_proxy, "no_proxy": no_proxy}


def jwt_secret(settings: Settings) -> str:
    """Return the key that signs tokens, generated once, so that tokens remain valid after a restart."""
    path = locate_airflow_home(settings) / "jwt-secret"
    if not path.exists():
        files.write_atomically(path, secrets.token_urlsafe(64))
    return path.read_text(encoding="utf-8")


def is_migrated(settings: Settings) -> bool:
    """Check that the database exists and was migrated to the installed version of Airflow."""
    marker = locate_airflow_home(settings) / "migrated"
    database = locate_airflow_home(settings) / "airflow.db"
    return database.exists() and marker.exists() and marker.read_text(encoding="utf-8") == version("apache-airflow")


def migrate(settings: Settings, variables: Mapping[str, str]) -> None:
    """Create the database, or migrate it to the installed version of Airflow.

    Raises:
        CutoverError: The migration failed; the message has the end of its output.
    """
    files.make_private_folder(locate_airflow_home(settings))
    completed = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MIGRATE_SECONDS,
        check=False,
        umask=0o077,
    )
    if completed.returncode != 0:
        msg = f"Airflow's database in `{locate_airflow_home(settings)}`: expected it migrated, "
        msg += f"got exit {completed.returncode}:\n"
        raise CutoverError(msg + (completed.stdout + completed.stderr)[-2000:])
    files.write_atomically(locate_airflow_home(settings) / "migrated", version("apache-airflow"))


def ensure_pool(client: Api) -> None:
    """Create the pool `spark` unless it exists; its single slot prevents two local Spark drivers at the same time."""
    if SPARK_POOL not in {pool["name"] for pool in client.get("pools", limit=200)["pools"]}:
        client.post("pools", {"name": SPARK_POOL, "slots": 1, "description": "One local Spark driver at a time"})


def current_environment(settings: Settings, ports: Ports) -> dict[str, str]:
    """Make `environment` from the environment of this process."""
    return environment(settings, ports, inherited=os.environ)


FURTHER_SAMPLES = ("ad_billing", "ad_budgets", "ad_views", "readings", "transfers")
"""Samples that are off by default, all in this project's folder of definitions."""

_FILE, _ON = "samples.json", "on"


def is_sample_off(lake: PipelineLake) -> bool:
    """Return True for a sample that is not turned on, and False for every definition in another folder."""
    pipeline = lake.pipeline
    is_sample = pipeline.file is not None and pipeline.file.parent == (REPOSITORY / "pipelines").resolve()
    return is_sample and pipeline.name in FURTHER_SAMPLES and pipeline.name not in _read_enabled_samples(lake.settings)


def turn_on_samples(settings: Settings, names: Iterable[str]) -> tuple[str, ...]:
    """Turn on samples, which get DAGs with the next parse; return the names of all samples that are on.

    Raises:
        DefinitionError: A name is not that of a sample.
    """
    sample_names = set(names)
    unknown = sorted(sample_names - set(FURTHER_SAMPLES))
    if unknown:
        msg = f"Option `--sample`: expected one of {', '.join(FURTHER_SAMPLES)}, got `{unknown[0][:80]}`."
        raise DefinitionError(msg + "\nHint: the demonstration's sample and all other definitions always have DAGs.")
    enabled = tuple(sorted(_read_enabled_samples(settings) | sample_names))
    files.write_json(settings.home.resolve() / _FILE, {_ON: list(enabled)})
    return enabled


def _read_enabled_samples(settings: Settings) -> set[str]:
    enabled = (files.read_json_file(settings.home.resolve() / _FILE) or {}).get(_ON)
    return {str(name) for name in enabled} if isinstance(enabled, list) else set()
