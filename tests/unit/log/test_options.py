"""Log settings: options of each client, and those rejected before a client is created."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from cutover.errors import DefinitionError, LogError
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.settings import KafkaSettings, Settings

NOBODY = "127.0.0.1:1"
SECURE = KafkaSettings(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", user="u", password=SecretStr('p"4\\ss'))


def client(home: Path, **kafka: object) -> LogClient:
    return LogClient(Settings(home=home, kafka=KafkaSettings(bootstrap_servers=NOBODY, timeout_seconds=1, **kafka)))


@pytest.mark.parametrize("key", sorted(options.ALLOWED))
def test_every_key_on_the_list_is_one_that_the_client_has(tmp_path: Path, key: str) -> None:
    assert client(tmp_path, client={key: "100000"}).bootstrap == NOBODY


@pytest.mark.parametrize("key", ["sasl.jaas.config", "group.id", "isolation.level", "interceptor.classes", "x"])
def test_any_other_key_is_rejected(tmp_path: Path, key: str) -> None:
    with pytest.raises(DefinitionError, match=f"got `{key}`"):
        client(tmp_path, client={key: "1"})


def test_a_value_that_the_client_rejects_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"fetch\.max\.bytes"):
        client(tmp_path, client={"fetch.max.bytes": "many"})


@pytest.mark.parametrize(
    "kafka",
    [
        KafkaSettings(protocol="SASL_SSL"),
        KafkaSettings(mechanism="PLAIN", user="u", password=SecretStr("p")),
        KafkaSettings(protocol="SSL", mechanism="PLAIN", user="u", password=SecretStr("p")),
        KafkaSettings(protocol="SASL_SSL", mechanism="PLAIN", user="u"),
        KafkaSettings(protocol="SASL_SSL", mechanism="PLAIN", user="u", password_file=Path("nowhere")),
    ],
)
def test_incomplete_credentials_are_rejected_by_name(kafka: KafkaSettings) -> None:
    with pytest.raises(DefinitionError, match=r"`kafka\.(protocol|mechanism|password_file)`"):
        options.check_client_settings(kafka)


def test_both_clients_log_in_alike() -> None:
    ours, java = options.make_librdkafka_options(SECURE, NOBODY), options.make_spark_options(SECURE, NOBODY)

    assert (ours["sasl.mechanism"], ours["sasl.username"], ours["sasl.password"]) == ("SCRAM-SHA-512", "u", 'p"4\\ss')
    assert java["kafka.security.protocol"] == ours["security.protocol"] == "SASL_SSL"
    assert java["kafka.sasl.jaas.config"].endswith('ScramLoginModule required username="u" password="p\\"4\\\\ss";')


def test_sparks_consumers_do_not_wait_long_at_the_end_of_the_log() -> None:
    assert options.make_spark_options(KafkaSettings(), NOBODY)["kafka.fetch.max.wait.ms"] == options.FETCH_WAIT_MS


def test_an_unknown_position_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=NOBODY) as refused:
        list(client(tmp_path).read("t", {0: [0]}))

    assert refused.value.runbook == "KafkaUnreachable"
    with pytest.raises(LogError, match=NOBODY):
        list(client(tmp_path).read_range("t", 0, 0, 1))
