"""Copy of a serving table in PostgreSQL, on a real server: the same rows, one transaction, never an older state."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from pydantic import SecretStr

from cutover.definition import Bag, Count, Daily, Fixed, Pipeline, Quantile, Sessions, Stddev, Sum, TopK
from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.kinds import Window
from cutover.errors import LakeError
from cutover.lake.serving import postgres_copy, serving_table
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema
from cutover.pipeline_lake import PipelineLake, serving_uri
from cutover.settings import ServingSettings, Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write
from tests.support.history.journal_rows import record_stage
from tests.support.servers.postgres import fetch_rows, running_server

HOSTILE = ("<script>", "a'b\"c", "tab\tand\nline \\N \\.", "\u202e", "", None)
SALES = tuple(Sale(epoch=i % 2, hour=i * 50, shop=shop, amount=i) for i, shop in enumerate(HOSTILE))
TABLE = '"cutover"."sales"'
VERSIONS = "SELECT xmin::text, _month FROM cutover.sales ORDER BY 2"  # which transaction wrote each row
WHO_SERVES = b"SELECT _served_by, count(*) FROM cutover.sales GROUP BY 1"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server() as server:
        yield server


@pytest.fixture
def copied(settings: Settings, address: str) -> Settings:
    """Return settings that configure a copy, on a server without one."""
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA IF EXISTS cutover CASCADE")
    delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_ledger"), batch_ledger_schema(PIPELINE))
    return settings.model_copy(update={"serving": ServingSettings(postgres=SecretStr(address))})


def record_move(settings: Settings, name: str) -> None:
    """Append a move, as if it had been allowed."""
    record_stage(PipelineLake(settings, PIPELINE), name)


def in_lake(settings: Settings, pipeline: Pipeline = PIPELINE) -> list[tuple[object, ...]]:
    """Return the serving table's rows, columns by name; lists and structs as they are."""
    rows: pa.Table = delta.open_table(serving_uri(settings, pipeline.name)).to_pyarrow_table()
    return sorted((tuple(row[name] for name in sorted(row)) for row in rows.to_pylist()), key=repr)


def in_copy(address: str) -> list[tuple[object, ...]]:
    with psycopg.connect(address, options="-c timezone=UTC") as connection:
        cursor = connection.execute(b"SELECT * FROM cutover.sales")
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return sorted((tuple(row[name] for name in sorted(row)) for row in rows), key=repr)


def test_copy_holds_the_rows_of_the_table_of_every_stage(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    for stage in ("LAMBDA", "SHADOW", "KAPPA"):
        record_move(copied, stage)
        publication = serving_table.publish(PipelineLake(copied, PIPELINE))

        assert publication.copy == TABLE
        assert in_copy(address) == in_lake(copied)
    assert len(in_copy(address)) == len(SALES)


@pytest.mark.parametrize("window", [Daily(zone="Europe/Oslo"), Sessions(gap="2 hours")], ids=["daily", "sessions"])
def test_measures_of_every_kind_can_be_copied(copied: Settings, address: str, window: Window) -> None:
    measures: dict[str, Measure] = {
        "sales": Count(),
        "half": Sum("amount / 3.0"),
        "spread": Stddev("amount"),
        "top": TopK("shop", k=2),
        "median": Quantile("amount", q=0.5),
        "all": Bag("desk"),
    }
    pipeline = replace(PIPELINE, window=window, measures=measures)
    lake = PipelineLake(copied, pipeline)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(pipeline))
    write(copied, lake_of([Sale(hour=hour) for hour in range(3)], pipeline), pipeline)

    serving_table.publish(lake)

    assert in_copy(address) == in_lake(copied, pipeline)


@pytest.mark.quick
def test_only_months_that_changed_are_written(copied: Settings, address: str) -> None:
    write(copied, lake_of([Sale(hour=hour) for hour in (0, 800)]))
    serving_table.publish(PipelineLake(copied, PIPELINE))
    uri = copied.serving.postgres
    assert uri is not None
    versions_before = fetch_rows(address, VERSIONS)

    copy = postgres_copy.publish_copy(copied, uri.get_secret_value(), PIPELINE.name)
    assert (copy.months, fetch_rows(address, VERSIONS)) == ((), versions_before)

    delta.open_table(serving_uri(copied, PIPELINE.name)).delete("_month = '2026-02'")
    less = postgres_copy.publish_copy(copied, uri.get_secret_value(), PIPELINE.name)
    assert less.months == ("2026-02",)
    assert fetch_rows(address, VERSIONS) == versions_before[:1]


def test_rows_of_the_copy_are_not_replaced_by_none_until_a_person_says_so(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    rows = serving_table.publish(PipelineLake(copied, PIPELINE)).rows
    delta.open_table(serving_uri(copied, PIPELINE.name)).delete()

    with pytest.raises(LakeError, match=f"in the place of its {rows}, got an empty table"):
        postgres_copy.publish_copy(copied, address, PIPELINE.name)

    assert len(in_copy(address)) == rows
    postgres_copy.publish_copy(copied, address, PIPELINE.name, anyway=True)
    assert in_copy(address) == []


@pytest.mark.quick
def test_an_older_version_never_comes_after_a_newer_one(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    serving_table.publish(PipelineLake(copied, PIPELINE))
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE cutover.__publications SET version = 41")

    with pytest.raises(LakeError, match="expected a table at version 41 or newer, as the copy is, got version 0"):
        postgres_copy.publish_copy(copied, address, PIPELINE.name)

    assert fetch_rows(address, "SELECT version FROM cutover.__publications") == [(41,)]


def test_a_copy_that_somebody_dropped_is_made_again(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    lake = PipelineLake(copied, PIPELINE)
    serving_table.publish(lake)
    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE cutover.sales")

    serving_table.publish(lake)

    assert in_copy(address) == in_lake(copied)


def test_a_column_that_the_server_has_itself_is_refused(copied: Settings) -> None:
    odd = replace(PIPELINE, measures={"ctid": Count()})
    lake = PipelineLake(copied, odd)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(odd))
    write(copied, lake_of(SALES, odd), odd)

    with pytest.raises(LakeError, match="expected no system column of the server, got `ctid`"):
        serving_table.publish(lake)


def test_readers_see_one_publication_at_a_time(copied: Settings, address: str) -> None:
    write(copied, lake_of([Sale(hour=hour) for hour in (0, 1, 2, 50, 90)]))
    lake = PipelineLake(copied, PIPELINE)
    serving_table.publish(lake)
    observed, ended = set[tuple[str, int]](), threading.Event()

    def read() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            while not ended.is_set():
                rows = connection.execute(WHO_SERVES).fetchall()
                observed.add(("+".join(sorted(by for by, _ in rows)), sum(count for _, count in rows)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(12):
            record_move(copied, ("SHADOW", "LAMBDA")[number % 2])
            serving_table.publish(lake)
    finally:
        ended.set()
        reader.join()

    assert observed == {("batch", 5), ("streaming", 5)}


def test_another_definition_changes_the_columns_where_they_stand(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    serving_table.publish(PipelineLake(copied, PIPELINE))
    with psycopg.connect(address) as connection:
        connection.execute("CREATE VIEW cutover.shops AS SELECT shop, sales FROM cutover.sales")
    other = replace(PIPELINE, window=Fixed(hours=1), measures={"sales": Count(), "paid": Sum("amount")})
    lake = PipelineLake(copied, other)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(other))
    write(copied, lake_of(SALES, other), other)

    serving_table.publish(lake)

    assert in_copy(address) == in_lake(copied, other)
    assert len(fetch_rows(address, "SELECT * FROM cutover.shops")) == len(SALES)


def test_who_may_write_a_schema_need_not_be_allowed_to_make_one(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    with psycopg.connect(address) as connection:
        connection.execute("DROP ROLE IF EXISTS writer")
        connection.execute("CREATE ROLE writer LOGIN")
        connection.execute("CREATE SCHEMA cutover AUTHORIZATION writer")
    serving_settings = ServingSettings(postgres=SecretStr(address.replace("cutover@", "writer@")))

    serving_table.publish(PipelineLake(copied.model_copy(update={"serving": serving_settings}), PIPELINE))

    assert in_copy(address) == in_lake(copied)
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA cutover CASCADE")
        connection.execute("DROP ROLE writer")


def test_a_table_of_somebody_else_is_not_touched(copied: Settings, address: str) -> None:
    write(copied, lake_of(SALES))
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA cutover")
        connection.execute("CREATE TABLE cutover.sales (mine int)")

    with pytest.raises(LakeError, match=r"expected no other table `cutover\.sales`"):
        serving_table.publish(PipelineLake(copied, PIPELINE))

    assert fetch_rows(address, "SELECT count(*) FROM cutover.sales") == [(0,)]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("postgres", "message"),
    [
        ("postgresql://cutover:hush@127.0.0.1:1/postgres", "expected a server that accepts it"),
        ("host=127.0.0.1 hush", "expected `postgresql://user@host/database`"),
        ("postgresql://cutover:a@hush@127.0.0.1:1/postgres", "`@`, `:` and `/` are written `%40`"),
    ],
)
def test_a_server_that_is_not_there_is_said_without_its_password(copied: Settings, postgres: str, message: str) -> None:
    write(copied, lake_of(SALES))
    away = copied.model_copy(update={"serving": ServingSettings(postgres=SecretStr(postgres))})

    lake = PipelineLake(away, PIPELINE)
    with pytest.raises(LakeError) as refused:
        serving_table.publish(lake)
    serving_table.update_tables(lake)  # a batch run, or a move of the gate, continues

    assert message in str(refused.value)
    assert "hush" not in f"{refused.value}{away!r}"


def test_a_text_that_the_server_cannot_hold_leaves_nothing_behind(copied: Settings, address: str) -> None:
    write(copied, lake_of([*SALES[:2], Sale(hour=3, shop="nul\0")]))

    with pytest.raises(LakeError, match="NUL"):
        serving_table.publish(PipelineLake(copied, PIPELINE))

    assert len(in_lake(copied)) == len([*SALES[:2], "nul"])
    assert fetch_rows(address, "SELECT to_regclass('cutover.sales')") == [(None,)]
