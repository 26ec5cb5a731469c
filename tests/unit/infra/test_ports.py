import socket
from pathlib import Path

import pytest

from cutover.infra.processes import ports


def all_free(_port: int) -> bool:
    return True


def test_ports_are_chosen_once_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "run" / "ports.json"

    first = ports.settle(path, needed=("broker",), free=all_free)

    assert ports.settle(path, needed=("broker",), free=all_free) == first
    assert len({first.broker, first.controller, first.airflow}) == 3


def test_a_taken_port_that_was_never_used_is_chosen_anew(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first = ports.settle(path, needed=("broker",), free=all_free)

    second = ports.settle(path, needed=("broker",), free=lambda port: port != first.broker)

    assert second.broker != first.broker
    assert ports.load(path) == second


def test_a_used_port_that_is_taken_is_refused_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        ports.mark_used(path, ports.Ports(broker=port, controller=20_001, airflow=20_002))

        with pytest.raises(ports.PortError, match=rf"broker: port {port} is held by .*pid \d+(.|\n)*Hint:"):
            ports.settle(path, needed=("broker",))


def test_a_taken_port_that_is_not_needed_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    chosen = ports.Ports(broker=20_001, controller=20_002, airflow=20_003)
    ports.mark_used(path, chosen)

    settled = ports.settle(path, needed=("broker",), free=lambda port: port != chosen.airflow)

    assert settled.broker == chosen.broker


def test_no_free_port_says_where_it_looked() -> None:
    with pytest.raises(ports.PortError, match=f"between {ports.FIRST} and {ports.LAST}"):
        ports.choose(free=lambda _port: False)


def test_a_damaged_file_of_ports_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_text('{"broker": "x"}', encoding="utf-8")

    with pytest.raises(ports.PortError, match=r"ports\.json"):
        ports.load(path)
