"""The command line: one source of a position, and the options that belong to it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from cutover.cli.app import main
from cutover.cli.position import position
from cutover.errors import DefinitionError
from cutover.positions.position import FORMAT

POSITION = {"format": FORMAT, "topics": {"t": {"0": 10, "1": 3}}, "upto": {"t": {"0": 12, "1": 3}}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "got none"),
        ({"checkpoint": "c", "group": "g"}, "got CHECKPOINT and --group"),
        ({"landed": "l", "run": "r", "file": "f"}, "got --file and --landed and --run"),
        ({"group": "g"}, "the topic that the job reads"),
        ({"run": "1970-01-01,1970-01-02"}, "the topic that the job reads"),
        ({"group": "g", "topic": ["t"]}, "--rows-within"),
        ({"group": "g", "topic": ["t"], "rows_within": "2 hours"}, "at most 1 hour"),
        ({"group": "g", "topic": ["t"], "rows_within": "soon"}, "a whole number and a unit"),
        ({"group": "g", "topic": ["t", "a,b"]}, "the name of one topic, got `a,b`"),
        ({"table": "t", "topic": ["t"]}, "--topic: expected it together with"),
        ({"file": "f", "rows_within": "1 second"}, "--rows-within: expected it together with --group"),
        ({"landed": "l", "table": "t"}, "--table: expected it together with"),
        ({"table": " "}, "expected a folder or a URI, got none"),
        ({"table": "ftp://host/t"}, "a Delta or Iceberg table"),
        ({"table": "gs://bucket/t"}, "begins with s3://"),
        ({"table": "postgresql://me:pw@host/db"}, "an address with a table"),
        ({"table": "iceberg://nowhere/n.t"}, "which is not configured"),
        ({"run": "x", "topic": ["t"], "clock_difference": "none"}, "--clock-difference"),
    ],
)
def test_options_that_do_not_belong_together_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as error:
        position(**{"clock_difference": "10 seconds"} | arguments)

    assert message in str(error.value)


def test_the_text_shows_level_bounds_and_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = CommitProperties(custom_metadata={"userMetadata": json.dumps(POSITION)})
    write_deltalake(str(tmp_path), pa.table({"n": [1]}), commit_properties=metadata)

    assert main(["position", "--table", str(tmp_path)]) == 0

    line = (
        "Position by `userMetadata` of version 0 (WRITE): bounded, t 0:10..12 1:3, at version 0. `--json` prints it for"
    )
    assert capsys.readouterr().out == f"{line} programs.\n"
    assert main(["position", "--table", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["level"], document["position"]["upto"]) == ("bounded", POSITION["upto"])


def test_an_unknown_position_ends_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))

    assert main(["position", "--table", str(tmp_path)]) == 2

    assert capsys.readouterr().out == (
        "Position unknown: version 0 (WRITE) changed rows without a position in its `userMetadata`.\n"
    )
    assert main(["position", "--table", str(tmp_path / "none")]) == 2
    assert main(["position", "--file", str(tmp_path / "none")]) == 2


def test_a_file_alone_is_not_compared_with_a_table(tmp_path: Path) -> None:
    file = tmp_path / "position.json"
    file.write_text(json.dumps(POSITION))
    document: Any = position(file=str(file)).document

    assert document["level"] == "bounded"
    assert "name it with `--table`" in document["notes"][0]
