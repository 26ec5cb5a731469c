"""A drill never runs where real pipelines run: it is refused before anything is started."""

from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.infra.drills.sequence import open_folder
from cutover.settings import KafkaSettings, Settings


def settings(**changes: object) -> Settings:
    """Build settings without an explicit home."""
    unnamed_home = Settings(lake=None, kafka=KafkaSettings()).model_copy(update=changes)
    unnamed_home.model_fields_set.discard("home")
    return unnamed_home


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"lake": "s3://lake/of-others"}, "lake"),
        ({"kafka": KafkaSettings(bootstrap_servers="kafka.example:9092")}, "kafka.bootstrap_servers"),
    ],
)
def test_drill_is_rejected_with_settings_of_real_pipelines(changes: dict[str, object], name: str) -> None:
    with pytest.raises(DefinitionError, match=f"got the setting `{name}`"), open_folder(settings(**changes), None):
        pass


@pytest.mark.parametrize("existing_path", ["lake/flights", "run/broker.json", "notes.txt"])
def test_drill_is_rejected_in_a_home_that_is_not_empty(existing_path: str, tmp_path: Path) -> None:
    home = tmp_path / ".cutover"
    (home / existing_path).mkdir(parents=True)

    with pytest.raises(DefinitionError, match="expected an empty or a new"), open_folder(Settings(home=home), None):
        pass


def test_drill_is_rejected_in_a_named_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()

    with pytest.raises(DefinitionError, match="drills damage existing data"), open_folder(settings(), tmp_path):
        pass


def test_named_folder_is_kept_and_temporary_one_is_removed(tmp_path: Path) -> None:
    with open_folder(settings(), tmp_path / "kept") as named_folder:
        named_folder.mkdir()
    with open_folder(settings(), None) as temporary_folder:
        assert temporary_folder.is_dir()

    assert (named_folder.exists(), temporary_folder.exists()) == (True, False)
