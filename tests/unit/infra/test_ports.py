import socket
from pathlib import Path

import pytest

from cutover.infra.processes import supervisor


def all_free(_port: int) -> bool:
    return True


def test_ports_are_chosen_once_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "run" / "ports.json"

    first_ports = supervisor.choose_ports_for_start(path, names=("broker",), free=all_free)

    assert supervisor.choose_ports_for_start(path, names=("broker",), free=all_free) == first_ports
    assert len({first_ports.broker, first_ports.controller, first_ports.airflow}) == 3


def test_an_occupied_port_that_was_never_used_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first_ports = supervisor.choose_ports_for_start(path, names=("broker",), free=all_free)

    second = supervisor.choose_ports_for_start(path, names=("broker",), free=lambda port: port != first_ports.broker)

    assert second.broker != first_ports.broker
    assert supervisor.load_ports(path) == second


def test_an_occupied_port_that_was_used_is_rejected_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    with socket.socket() as other:
        other.bind((supervisor.LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        supervisor.mark_ports_used(path, supervisor.Ports(broker=port, controller=20_001, airflow=20_002))

        with pytest.raises(supervisor.PortError, match=rf"broker: port {port} is used by .*pid \d+(.|\n)*Hint:"):
            supervisor.choose_ports_for_start(path, names=("broker",))


def test_an_occupied_port_that_is_not_needed_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    remembered = supervisor.Ports(broker=20_001, controller=20_002, airflow=20_003)
    supervisor.mark_ports_used(path, remembered)

    settled = supervisor.choose_ports_for_start(path, names=("broker",), free=lambda port: port != remembered.airflow)

    assert settled.broker == remembered.broker


def test_missing_free_port_names_the_searched_range() -> None:
    with pytest.raises(supervisor.PortError, match=f"between {supervisor.FIRST_PORT} and {supervisor.LAST_PORT}"):
        supervisor.choose_port(free=lambda _port: False)


def test_a_damaged_port_file_is_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_text('{"broker": "x"}', encoding="utf-8")

    with pytest.raises(supervisor.PortError, match=r"ports\.json"):
        supervisor.load_ports(path)
