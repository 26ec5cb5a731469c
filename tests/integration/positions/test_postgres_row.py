"""Positions in a row of a real PostgreSQL server, written in the transaction of the table."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cutover.cli.position import position
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.positions.position import FORMAT
from tests.support.servers.postgres import running_server

SCHEMA = """
CREATE SCHEMA "An";
CREATE TABLE "An".hourly (n bigint);
CREATE TABLE "An".cutover_position (table_name text PRIMARY KEY, position jsonb NOT NULL);
"""
UPSERT = """
INSERT INTO "An".cutover_position VALUES ('hourly', %s)
ON CONFLICT (table_name) DO UPDATE SET position = excluded.position
"""


@pytest.fixture(scope="module", params=["on", "off"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """Return the address of a server, and whether it keeps the times of commits."""
    with running_server(track_commit_timestamp=str(request.param)) as address:
        yield address, request.param == "on"


@pytest.fixture
def address(server: tuple[str, bool], monkeypatch: pytest.MonkeyPatch) -> str:
    with psycopg.connect(server[0]) as connection:
        connection.execute('DROP SCHEMA IF EXISTS "An" CASCADE')
        connection.execute(SCHEMA.encode())
    monkeypatch.setenv("PAYMENTS_DB", server[0])
    return server[0]


def run_job(address: str, offset: int) -> None:
    """Write rows and the position in one transaction."""
    text = json.dumps({"format": FORMAT, "topics": {"payments": {"0": offset}}})
    with psycopg.connect(address) as connection:
        connection.execute('DELETE FROM "An".hourly')
        connection.execute(UPSERT, [text])
        connection.execute('INSERT INTO "An".hourly VALUES (1), (2)')


def show(table: str = 'env:PAYMENTS_DB#"An".hourly') -> Any:
    return position(table=table).document


@pytest.mark.quick("on")
def test_the_row_is_the_position_until_another_transaction_writes(address: str, server: tuple[str, bool]) -> None:
    assert show()["unknown"] == "`An.cutover_position` has no positions of `hourly`"
    for offset in (10, 20):
        run_job(address, offset)
        document = show()
        assert (document["level"], document["position"]["topics"]) == ("exact", {"payments": {"0": offset}})
    with psycopg.connect(address) as connection:
        connection.execute('INSERT INTO "An".hourly VALUES (3)')

    document = show()
    assert (document["level"], document["position"]) == ("unknown", None)
    assert ("or in a savepoint of it" in document["unknown"]) is not server[1]


def test_maintenance_changes_no_position_and_a_savepoint_is_known_by_the_times_of_commits(
    address: str, server: tuple[str, bool]
) -> None:
    run_job(address, 10)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in ("VACUUM FULL", "VACUUM FREEZE", "ANALYZE"):
            connection.execute(f'{statement} "An".hourly'.encode())
        connection.execute('ALTER TABLE "An".hourly ADD COLUMN note text DEFAULT 7')
        connection.execute('SELECT * FROM "An".hourly FOR UPDATE')
    assert show()["level"] == "exact"

    with psycopg.connect(address) as connection:
        connection.execute('DELETE FROM "An".hourly')
        connection.execute(UPSERT, [json.dumps({"payments": {"0": 20}})])
        with connection.transaction():
            connection.execute('INSERT INTO "An".hourly VALUES (1), (2)')
    assert show()["level"] == ("exact" if server[1] else "unknown")


def test_tables_and_rows_that_are_missing_or_malformed_are_named(address: str) -> None:
    with pytest.raises(LakeError, match="found none"):
        show("env:PAYMENTS_DB#nowhere")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS lonely (n bigint)")
    assert show("env:PAYMENTS_DB#lonely")["unknown"] == "schema public has no table `cutover_position`"
    run_job(address, -7)
    with pytest.raises(LakeError, match="a whole number from 0"):
        show()
    with psycopg.connect(address) as connection:
        connection.execute('ALTER TABLE "An".cutover_position DROP COLUMN position')
    with pytest.raises(LakeError, match='"position" does not exist'):
        show()


@pytest.mark.parametrize(
    "table",
    [
        "postgresql://me:secret-word@127.0.0.1:1/db#t",
        "postgresql://me:secret-word@[/db#t",
        "postgresql://me:a@secret-word@127.0.0.1:1/db#t",
        "postgresql://me:secret%2Dword@127.0.0.1:1/db#t",
        "postgresql://me:secret-word@127.0.0.1:1/db",
        "postgresql://me:secret-word@127.0.0.1:1/db?x=secret-word#t",
        "env:NO_SUCH_VARIABLE#t",
    ],
)
def test_no_message_repeats_a_password(table: str) -> None:
    with pytest.raises(CutoverError) as error:
        show(table)

    assert "secret-word" not in str(error.value)


def test_another_source_next_to_a_table_of_a_server_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="alone, without another source"):
        position(file="position.json", table="postgresql://127.0.0.1/db#t")
