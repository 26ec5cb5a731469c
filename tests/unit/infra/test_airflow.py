import json
import stat
from pathlib import Path

import pytest

from cutover.infra.airflow import instance as airflow
from cutover.infra.processes.supervisor import Ports
from cutover.settings import KafkaSettings, MetricsSettings, Settings

PORTS = Ports(broker=20_001, controller=20_002, airflow=20_003)


def environment(settings: Settings, **inherited: str) -> dict[str, str]:
    return airflow.environment(settings, PORTS, inherited=inherited)


def test_the_api_listens_on_loopback_and_tasks_find_it_there(settings: Settings) -> None:
    variables = environment(settings)

    assert variables["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert variables["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:20003/execution/"


def test_variables_of_another_airflow_are_removed(settings: Settings) -> None:
    variables = environment(settings, AIRFLOW__CORE__FERNET_KEY="theirs", AIRFLOW_HOME="/theirs", PATH="/bin")

    assert "AIRFLOW__CORE__FERNET_KEY" not in variables
    assert variables["AIRFLOW_HOME"] == str(settings.home / "airflow")
    assert variables["PATH"] == "/bin"


def test_tasks_get_the_installation_by_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    variables = environment(Settings(home=Path("state"), kafka=KafkaSettings(bootstrap_servers="log:9092")))

    assert variables["CUTOVER_HOME"] == str(tmp_path / "state")
    assert variables["CUTOVER_PIPELINES"] == str(tmp_path / "pipelines")
    assert variables["CUTOVER_KAFKA__BOOTSTRAP_SERVERS"] == "log:9092"


def test_dag_files_are_copied_into_the_installation_and_parsed_when_definitions_change(settings: Settings) -> None:
    variables = environment(settings)
    (bundle,) = json.loads(variables["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])

    assert bundle["classpath"] == "cutover.infra.airflow.bundle.DefinitionsBundle"
    assert bundle["kwargs"]["path"] == str(settings.home / "airflow" / "dags")
    assert bundle["kwargs"]["source"] == variables["AIRFLOW__CORE__DAGS_FOLDER"]
    # A look, the parse of all files and a round of the scheduler have to fit into 30 seconds.
    assert bundle["kwargs"]["refresh_interval"] <= 10
    assert int(variables["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"]) >= 600


def test_loopback_goes_past_a_proxy(settings: Settings) -> None:
    assert environment(settings, no_proxy="intern")["no_proxy"] == "intern,127.0.0.1,localhost"


def test_the_signing_key_is_long_private_and_stable(settings: Settings) -> None:
    key = airflow.jwt_secret(settings)

    assert len(key) >= 64
    assert airflow.jwt_secret(settings) == key
    assert mode(settings.home / "airflow" / "jwt-secret") == 0o600


def test_passwords_are_made_once_in_a_file_of_the_owner(settings: Settings) -> None:
    password = airflow.password(settings)
    path = airflow.passwords_file(settings)

    assert airflow.password(settings) == password
    assert json.loads(path.read_text(encoding="utf-8")).keys() == {"admin", "viewer"}
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_telemetry_is_disabled(settings: Settings) -> None:
    variables = environment(settings)

    assert variables["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"
    assert variables["SCARF_ANALYTICS"] == "false"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_airflow_sends_its_metrics_nowhere_by_default(settings: Settings) -> None:
    variables = environment(settings)

    assert (variables["AIRFLOW__METRICS__OTEL_ON"], variables["AIRFLOW__METRICS__STATSD_ON"]) == ("False", "False")


def test_airflow_sends_its_metrics_to_the_collector_of_this_machine(settings: Settings) -> None:
    variables = environment(settings.model_copy(update={"metrics": MetricsSettings(airflow_port=4318)}))

    exporter = [variables[f"AIRFLOW__METRICS__OTEL_{key}"] for key in ("ON", "HOST", "PORT", "SSL_ACTIVE")]
    assert exporter == ["True", "127.0.0.1", "4318", "False"]
