from configparser import RawConfigParser
from pathlib import Path

from cutover.infra.processes.supervisor import Program, format_supervisor_config

PROGRAMS = (
    Program(name="broker", group="kafka", command=("java", "-cp", "/a b/*")),
    Program(name="scheduler", group="airflow", command=("airflow", "scheduler")),
    Program(name="triggerer", group="airflow", command=("airflow", "100%")),
)


def parsed(*, root: bool = False) -> RawConfigParser:
    parser = RawConfigParser()
    parser.read_string(
        format_supervisor_config(PROGRAMS, home=Path("/h"), socket=Path("/s/s"), directory=Path("/work dir"), root=root)
    )
    return parser


def test_the_supervisor_is_reached_by_a_private_socket_only() -> None:
    conf = parsed()

    assert conf["unix_http_server"]["chmod"] == "0600"
    assert "inet_http_server" not in conf


def test_a_program_that_dies_is_started_again_and_stops_with_its_group() -> None:
    section = parsed()["program:scheduler"]

    assert section["autorestart"] == "true"
    assert section["stopasgroup"] == section["killasgroup"] == "true"


def test_airflow_stops_as_one_group() -> None:
    assert parsed()["group:airflow"]["programs"] == "scheduler,triggerer"


def test_a_path_with_a_space_stays_one_argument() -> None:
    assert parsed()["program:broker"]["command"] == "java -cp '/a b/*'"


def test_a_percent_sign_is_not_expanded() -> None:
    assert parsed()["program:triggerer"]["command"] == "airflow 100%%"


def test_files_are_readable_only_by_their_owner() -> None:
    assert parsed()["supervisord"]["umask"] == "077"


def test_root_is_named_so_that_the_supervisor_does_not_complain() -> None:
    assert parsed(root=True)["supervisord"]["user"] == "root"
    assert "user" not in parsed()["supervisord"]
