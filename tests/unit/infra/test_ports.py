import socket
from pathlib import Path

import pytest

from cutover.infra.processes import ports


def all_free(_port: int) -> bool:
    return True


def test_ports_are_chosen_once_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "run" / "ports.json"

    first_ports = ports.choose_for_start(path, names=("broker",), free=all_free)

    assert ports.choose_for_start(path, names=("broker",), free=all_free) == first_ports
    assert len({first_ports.broker, first_ports.controller, first_ports.airflow}) == 3


def test_an_occupied_port_that_was_never_used_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first_ports = ports.choose_for_start(path, names=("broker",), free=all_free)

    second = ports.choose_for_start(path, names=("broker",), free=lambda port: port != first_ports.broker)

    assert second.broker != first_ports.broker
    assert ports.load_ports(path) == second


def test_an_occupied_port_that_was_used_is_rejected_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        ports.mark_used(path, ports.Ports(broker=port, controller=20_001, airflow=20_002))

        with pytest.raises(ports.PortError, match=rf"broker: port {port} is used by .*pid \d+(.|\n)*Hint:"):
            ports.choose_for_start(path, names=("broker",))


def test_an_occupied_port_that_is_not_needed_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    remembered = ports.Ports(broker=20_001, controller=20_002, airflow=20_003)
    ports.mark_used(path, remembered)

    settled = ports.choose_for_start(path, names=("broker",), free=lambda port: port != remembered.airflow)

    assert settled.broker == remembered.broker


def test_missing_free_port_names_the_searched_range() -> None:
    with pytest.raises(ports.PortError, match=f"between {ports.FIRST} and {ports.LAST}"):
        ports.choose(free=lambda _port: False)


def test_a_damaged_port_file_is_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_text('{"broker": "x"}', encoding="utf-8")

    with pytest.raises(ports.PortError, match=r"ports\.json"):
        ports.load_ports(path)
