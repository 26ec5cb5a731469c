from pathlib import Path

from cutover.infra.broker import server
from cutover.infra.processes.supervisor import Ports

PORTS = Ports(broker=20_001, controller=20_002, airflow=20_003)


def properties(home: Path) -> dict[str, str]:
    lines = server.server_properties(home, PORTS).splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_every_listener_is_on_loopback() -> None:
    listeners = properties(Path("/home"))["listeners"].split(",")

    assert listeners == ["PLAINTEXT://127.0.0.1:20001", "CONTROLLER://127.0.0.1:20002"]


def test_a_batch_of_8_mb_fits_with_its_header() -> None:
    assert int(properties(Path("/home"))["message.max.bytes"]) == 9 * 1024 * 1024


def test_topics_are_never_created_automatically() -> None:
    assert properties(Path("/home"))["auto.create.topics.enable"] == "false"


def test_data_are_stored_under_the_home() -> None:
    assert properties(Path("/some home"))["log.dirs"] == "/some home/kafka/data"


def test_the_heap_is_bounded() -> None:
    assert "-Xmx512m" in server.make_broker_command(Path("/home"))


def test_a_cluster_id_never_reads_as_an_option() -> None:
    ids = [server.new_cluster_id() for _ in range(300)]

    assert {len(text) for text in ids} == {22}
    assert not [text for text in ids if text.startswith("-")]
