"""A separate Airflow for these tests: a temporary home, its database created once, the DAG folder of this project."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutover.infra.airflow import instance
from cutover.settings import load_settings

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
# Airflow reads its home when it is first imported, and test modules import it: so it is set here, not in a fixture.
_HOME = tempfile.TemporaryDirectory(prefix="airflow-")
SETTINGS = {
    "AIRFLOW_HOME": _HOME.name,
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}
os.environ.update(SETTINGS)
if str(DAGS) not in sys.path:
    sys.path.append(str(DAGS))


@pytest.fixture(scope="session")
def airflow_home() -> Iterator[Path]:
    command = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    yield Path(_HOME.name)
    _HOME.cleanup()


@pytest.fixture(scope="session")
def bag(airflow_home: Path) -> "DagBag":
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- after the home is set

    assert airflow_home.is_dir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTOVER_PIPELINES", str(ROOT / "pipelines"))
        patch.setenv("CUTOVER_HOME", str(airflow_home / "cutover"))
        instance.turn_on_samples(load_settings(), instance.FURTHER_SAMPLES)
        return DagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags-folder")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path))
    return tmp_path
