from pathlib import Path

import pytest
from pydantic import SecretStr

from cutover.infra import doctor
from cutover.infra.doctor import HIDDEN, SettingRow
from cutover.settings import KafkaSettings, Settings, SparkSettings


def row(settings: Settings, name: str, **environment: str) -> SettingRow:
    rows = doctor.list_setting_rows(settings, environment=environment, toml={"kafka": {"user": "u"}})
    return next(r for r in rows if r.name == name)


def test_a_password_is_hidden() -> None:
    assert row(Settings(kafka=KafkaSettings(password=SecretStr("p4ss"))), "kafka.password").value == HIDDEN


def test_the_path_of_a_password_file_is_shown() -> None:
    assert row(Settings(kafka=KafkaSettings(password_file=Path("/p"))), "kafka.password_file").value == "/p"


@pytest.mark.parametrize("key", ["spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "x.token"])
def test_a_secret_among_the_passed_through_confs_is_hidden(key: str) -> None:
    conf = row(Settings(spark=SparkSettings(conf={key: "p4ss", "spark.ui.enabled": "false"})), "spark.conf").value

    assert conf == ", ".join(sorted([f"{key}={HIDDEN}", "spark.ui.enabled=false"]))


def test_credentials_in_an_address_are_hidden() -> None:
    assert row(Settings(lake="s3://me:p4ss@bucket/lake"), "lake").value == f"s3://{HIDDEN}@bucket/lake"
    with_url = Settings.model_validate({"lineage": {"url": "http://me:p4ss@host/api"}})
    assert row(with_url, "lineage.url").value == f"http://{HIDDEN}@host/api"


def test_a_setting_shows_its_source() -> None:
    settings = Settings()

    assert row(settings, "kafka.protocol", CUTOVER_KAFKA__PROTOCOL="SSL").source == "CUTOVER_KAFKA__PROTOCOL"
    assert row(settings, "kafka.protocol", CUTOVER_KAFKA="{}").source == "CUTOVER_KAFKA"
    assert row(settings, "kafka.client", CUTOVER_KAFKA__CLIENT__X="1").source == "CUTOVER_KAFKA__CLIENT__*"
    assert row(settings, "kafka.user").source == "cutover.toml"
    assert row(settings, "kafka.mechanism").source == "default"


def test_every_setting_of_the_model_is_listed() -> None:
    names = {r.name for r in doctor.list_setting_rows(Settings(), environment={}, toml={})}

    assert {"home", "kafka.password", "spark.conf", "stream.trigger_seconds"} <= names
