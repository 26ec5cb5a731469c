"""Schemas that are stored in the lake: each is fetched once, and a changed file is noticed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutover.engine import schema_store
from cutover.engine.schema_store import SchemaStore
from cutover.errors import LakeError, LogError
from cutover.settings import RegistrySettings, Settings
from tests.support.servers.registry import Registry, small_registry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with small_registry() as running:
        yield running


def settings_of(home: Path, url: str) -> Settings:
    return Settings(home=home, registry=RegistrySettings(url=url, timeout_seconds=0.1))


def test_a_stored_schema_needs_no_registry(registry: Registry, tmp_path: Path) -> None:
    number = registry.register(ORDER)
    SchemaStore(settings_of(tmp_path, registry.url)).learn([number, 99])

    without = SchemaStore(settings_of(tmp_path, "http://127.0.0.1:9"))
    without.learn([number, 99])

    known = without.list_known()
    assert (known[number].document, known[99].text) == (ORDER, None)
    assert registry.paths == [f"/schemas/ids/{number}", "/schemas/ids/99"]


def test_a_schema_that_is_registered_later_is_found(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (SchemaStore(settings_of(tmp_path, registry.url)) for _ in range(2))
    first.learn([1])
    registry.register(ORDER)
    second.learn([1])
    assert [store.list_known()[1].text for store in (first, second)] == [None, None]
    assert len(registry.paths) == 1

    monkeypatch.setattr(schema_store, "UNKNOWN_SECONDS", -1.0)

    assert 1 not in first.list_known()
    first.learn([1])
    assert first.list_known()[1].document == ORDER
    second.learn([1])
    assert second.list_known()[1].document == ORDER
    assert len(registry.paths) == 2


def test_an_earlier_answer_counts_while_the_registry_is_down(registry: Registry, tmp_path: Path) -> None:
    SchemaStore(settings_of(tmp_path, registry.url)).learn([7])
    path = tmp_path / "lake" / "_control" / "schemas" / "7.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**stored, "asked_at": stored["asked_at"] - 601}), encoding="utf-8")
    down = SchemaStore(settings_of(tmp_path, "http://127.0.0.1:9"))

    assert 7 not in down.list_known()
    down.learn([7])

    assert down.list_known()[7].text is None


def test_nothing_is_stored_without_an_answer(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        SchemaStore(settings_of(tmp_path, "http://127.0.0.1:9")).learn([1])

    assert SchemaStore(settings_of(tmp_path, "http://127.0.0.1:9")).list_known() == {}


@pytest.mark.parametrize(
    "text", ["", "{}", '{"id": 1, "digest": "0", "schema": null}', '{"id": 1, "digest": "0", "schema": "{"}']
)
def test_a_changed_file_is_rejected(registry: Registry, tmp_path: Path, text: str) -> None:
    store = SchemaStore(settings_of(tmp_path, registry.url))
    store.learn([registry.register(ORDER)])
    Path(store.uri, "1.json").write_text(text, encoding="utf-8")

    with pytest.raises(LakeError, match=r"1\.json"):
        SchemaStore(settings_of(tmp_path, registry.url)).list_known()


def test_another_process_may_have_stored_a_schema(registry: Registry, tmp_path: Path) -> None:
    first, second = (SchemaStore(settings_of(tmp_path, registry.url)) for _ in range(2))
    assert first.list_known() == {}
    second.learn([registry.register(ORDER)])
    first.learn([1])

    assert first.list_known()[1].document == ORDER
    assert len(registry.paths) == 1


def test_too_many_unknown_ids_are_an_error(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_store, "MAX_UNKNOWN", 3)
    store = SchemaStore(settings_of(tmp_path, registry.url))

    with pytest.raises(LogError, match="none of 3 ids"):
        store.learn(range(10, 20))


def test_a_digest_ignores_how_a_schema_is_written(registry: Registry, tmp_path: Path) -> None:
    numbers = [registry.register(json.dumps(ORDER, indent=indent)) for indent in (None, 2)]
    store = SchemaStore(settings_of(tmp_path, registry.url))
    store.learn(numbers)

    assert len({schema.digest for schema in store.list_known().values()}) == 1
