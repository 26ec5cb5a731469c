"""Example settings: each loads, and its Spark options reach Spark."""

from pathlib import Path

import pytest

from cutover.engine import storage
from cutover.settings import Settings

EXAMPLES = sorted(Path("infra/examples").glob("*.toml"))


def load(example: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (folder / "cutover.toml").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(folder)
    return Settings()


def test_each_place_has_an_example() -> None:
    assert [example.stem for example in EXAMPLES] == ["kubernetes", "object-store", "standalone", "yarn"]


@pytest.mark.parametrize("example", [e.resolve() for e in EXAMPLES], ids=lambda e: e.stem)
def test_example_loads_and_names_no_local_master(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(example, tmp_path, monkeypatch)

    assert settings.spark.master.startswith("local") == (example.stem == "object-store")
    assert storage.is_object_store(settings.lake_uri) == (example.stem != "standalone")


@pytest.mark.parametrize("example", [e.resolve() for e in EXAMPLES], ids=lambda e: e.stem)
def test_example_holds_no_key(example: Path) -> None:
    lines = [line for line in example.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]

    assert not [line for line in lines if "SECRET" in line.upper() and "secretKeyRef" not in line]
