"""One lake, built once; each test spoils a copy of it."""

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import KafkaSettings, Settings
from tests.integration.verify.lab import EPOCHS, Lab, build


@pytest.fixture(scope="session")
def built_lab(tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str) -> Lab:
    home = tmp_path_factory.mktemp("verified")
    settings = Settings(home=home, kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap, timeout_seconds=30))
    lab = build(settings, f"verify-planted-{uuid.uuid4().hex[:8]}", EPOCHS)
    assert run_reconciliation(lab.lake).finding.verdict is Verdict.EXPLAINED
    return lab


@pytest.fixture
def lab(built_lab: Lab, tmp_path: Path) -> Lab:
    """Return a copy of the lake for one test to spoil."""
    shutil.copytree(built_lab.lake.settings.home, tmp_path / "home")
    lake = built_lab.lake.with_settings(home=tmp_path / "home")
    return replace(built_lab, lake=lake, version=replace(built_lab.version, uri=_uri_in(built_lab, lake.settings)))


def _uri_in(lab: Lab, settings: Settings) -> str:
    return lab.version.uri.replace(lab.lake.settings.lake_uri, settings.lake_uri)
