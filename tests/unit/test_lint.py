"""`cutover lint` and `cutover init` on the command line: exit codes and messages, without Kafka and Spark."""

import json
from pathlib import Path

import pytest

from cutover.cli.app import main
from cutover.cli.lint import kafka_warnings, warnings
from cutover.definition import AfterCount, AtWatermark, Audit, Count, Fixed, Global, Pipeline, Policy, Repeat, Topic
from cutover.definition.model.triggers import Trigger
from cutover.definition.windows.kinds import Window
from cutover.settings import KafkaSettings

CSV = """event_time,arrival_time,shop,paid
1357035300,1357035420,a,5
1357035301,1357035400,b,7
1357035301,1357035400,a,7
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.csv").write_text(CSV, encoding="utf-8")
    return tmp_path


def test_written_definition_lints_clean(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "shop", "--from", str(home / "shop.csv")]) == 0
    assert main(["lint", "shop", "--json"]) == 0

    assert json.loads(capsys.readouterr().out.splitlines()[-1])["warnings"] == {"shop": []}


BROKEN = {"syntax": "pipeline = (\n", "raises": "raise ValueError('no')\n", "none": "x = 1\n"}


@pytest.mark.parametrize("broken", [["syntax"], ["none", "raises", "syntax"]])
def test_a_broken_file_does_not_prevent_linting_other_pipelines(
    home: Path, capsys: pytest.CaptureFixture[str], broken: list[str]
) -> None:
    for name in ("shop", "zoo"):
        main(["init", name, "--from", str(home / "shop.csv")])
    for name in broken:
        (home / "pipelines" / f"{name}.py").write_text(BROKEN[name], encoding="utf-8")
    capsys.readouterr()

    assert main(["lint"]) == 2

    stdout, stderr = capsys.readouterr()
    lines = stdout.splitlines()
    assert [line.partition(": ok")[0] for line in lines[:2]] == ["shop", "zoo"]
    assert lines[-1].startswith(f"2 can run, 0 warnings; {len(broken)} cannot: ")
    assert [name for name in BROKEN if f"{name}.py" in lines[-1]] == sorted(broken, key=list(BROKEN).index)
    assert [name for name in BROKEN if f"{name}.py" in stderr] == sorted(broken, key=list(BROKEN).index)

    assert main(["lint", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (sorted(report["warnings"]), sorted(report["fingerprints"])) == (["shop", "zoo"], ["shop", "zoo"])
    assert sorted(report["problems"]) == [f"{name}.py" for name in sorted(broken)]


def test_a_broken_rule_does_not_prevent_linting_other_pipelines(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop", "zoo"):
        main(["init", name, "--from", str(home / "shop.csv")])
    rules = home / "pipelines" / "accepted" / "shop"
    rules.mkdir(parents=True)
    (rules / "odd.toml").write_text("max_rows = 'many'\n", encoding="utf-8")
    capsys.readouterr()

    assert main(["lint"]) == 2

    stdout, stderr = capsys.readouterr()
    assert [line.partition(": ok")[0] for line in stdout.splitlines()[:-1]] == ["zoo"]
    assert stdout.splitlines()[-1].startswith("1 can run, 0 warnings; 1 cannot: shop.")
    assert "odd.toml" in stderr


def test_only_broken_files_are_no_empty_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "pipelines").mkdir()
    (home / "pipelines" / "raises.py").write_text(BROKEN["raises"], encoding="utf-8")

    assert main(["lint"]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 can run, 0 warnings; 1 cannot: raises.py.")


def test_init_does_not_overwrite(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "shop", "--from", str(home / "shop.csv")])
    (home / "pipelines" / "shop.py").write_text("mine", encoding="utf-8")

    assert main(["init", "shop", "--from", str(home / "shop.csv")]) == 2
    assert "expected no file, but it exists" in capsys.readouterr().err
    assert (home / "pipelines" / "shop.py").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["../x", "a;b", "select", "x" * 64])
def test_init_rejects_an_invalid_name(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["init", name, "--from", str(home / "shop.csv")]) == 2
    assert "expected" in capsys.readouterr().err
    assert not (home / "pipelines").exists()


def test_init_explains_the_missing_times_of_a_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "no.csv").write_text("a,b\n1,x\n", encoding="utf-8")

    assert main(["init", "no", "--from", str(home / "no.csv")]) == 2
    assert "expected a column with a time" in capsys.readouterr().err


def test_lint_of_an_unknown_pipeline_names_the_known_ones(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "shop", "--from", str(home / "shop.csv")])

    assert main(["lint", "shpo"]) == 2
    assert "did you mean `shop`" in capsys.readouterr().err


def test_produce_without_a_broker_names_the_way_to_start_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "shop", "--from", str(home / "shop.csv")])

    assert main(["produce", "shop.csv", "--pipeline", "shop"]) == 2
    assert "`cutover up` starts a broker" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--speed", "fast"], ["--speed", "-1x"], ["--from", "yesterday"]])
def test_produce_rejects_bad_arguments(home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    main(["init", "shop", "--from", str(home / "shop.csv")])

    assert main(["produce", "shop.csv", "--pipeline", "shop", *arguments]) == 2
    assert f"{arguments[0]}: expected" in capsys.readouterr().err


def test_lint_warns_of_unsafe_client_settings() -> None:
    kafka = KafkaSettings(bootstrap_servers="kafka.example:9092", client={"interceptor.classes": "x", "client.id": "a"})

    assert [text.split(":")[0] for text in kafka_warnings(kafka)] == ["kafka.client", "kafka.protocol"]


@pytest.mark.parametrize(
    ("window", "trigger", "warned"),
    [
        (Global(), Repeat(of=AtWatermark()), True),
        (Global(), AtWatermark(early=AfterCount(2)), False),
        (Global(), None, False),
        (Fixed(hours=1), AtWatermark(), False),
    ],
)
def test_lint_warns_of_a_trigger_that_waits_for_the_end_of_time(
    window: Window, trigger: Trigger | None, warned: bool
) -> None:
    pipeline = Pipeline(
        name="p",
        source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
        key=("k",),
        window=window,
        measures={"n": Count()},
        trigger=trigger,
    )

    assert any("no pane is emitted before" in text for text in warnings(pipeline)) == warned


@pytest.mark.parametrize(
    ("window", "audit", "warned"),
    [(Global(), Audit(), True), (Global(), None, False), (Fixed(hours=1), Audit(), False)],
)
def test_windows_that_cannot_be_sampled_are_reported(window: Window, audit: Audit | None, *, warned: bool) -> None:
    pipeline = Pipeline(
        name="clicks",
        source=Topic(name="clicks", schema="who string, at timestamp NOT NULL", event_time="at"),
        key=("who",),
        window=window,
        measures={"clicks": Count()},
        policy=Policy(audit=audit),
    )

    assert any(text.startswith("policy.audit: sessions") for text in warnings(pipeline)) is warned
