"""Routes of the pages with FastAPI's test client: permissions, headers and missing pages."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.lake import recorded_definitions
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.pages import routes
from cutover.reconcile.pages.routes import Access
from cutover.reconcile.result.finding import Difference, Verdict
from cutover.settings import Settings
from tests.support.history import recorded
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report
from tests.unit.report.test_page import HOSTILE, outline

ALL, SOME = "all", "some"  # users: who may read every pipeline, and who may read `flights` alone
OF_RUN = ["http://elsewhere/flights/20261121T040212Z-8f31.html", "../../secret", "/etc/passwd"]


def user(request: Request) -> str:
    name = request.headers.get("user")
    if name is None:
        raise HTTPException(401, "Not authenticated")
    return name


def may_read(reader: str, dag_id: str) -> bool:
    return reader == ALL or dag_id == "flights_reconcile"


def reports_of_run(dag_id: str, run_id: str, map_index: int | None) -> Iterable[str]:
    assert dag_id == "flights_reconcile"
    return {("several", None): [*OF_RUN, "x/other.html"], ("one", 3): OF_RUN}.get((run_id, map_index), [])


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = Settings(home=tmp_path_factory.mktemp("home"), pipelines=Path("pipelines").resolve())
    recorded.record(PipelineLake(settings, catalogue.get(settings, "flights")), flights())
    cells = tuple(
        Difference(
            window_start="2013-05-05T05:00:00Z",
            key={"campaign_id": text},
            measure="views",
            kind="extra",
            streaming=3,
            batch=None,
            difference=3,
            cause="unexplained",
        )
        for text in HOSTILE
    )
    bad = change_report(flights(), verdict=Verdict.DIVERGED, exit_code=1, differences=cells, run_id="hostile-1")
    recorded.record(
        PipelineLake(settings, catalogue.get(settings, "ad_views")), change_report(bad, sentence=HOSTILE[0])
    )
    return settings


@pytest.fixture(scope="module")
def client(installation: Settings) -> TestClient:
    access = Access(user=user, may_read=may_read, reports_of_run=reports_of_run)
    return TestClient(routes.make_app(installation, access), follow_redirects=False, headers={"user": ALL})


def test_page_shows_every_part_of_a_pipeline(client: TestClient) -> None:
    page = client.get("/pipelines/flights")

    assert page.status_code == 200
    for part in ("gate", "reports", "stream", "differences", "cost", "runbooks"):
        assert f'<section id="{part}">' in page.text
    assert "LAMBDA" in page.text
    assert "criteria are not met" in page.text
    assert "<b>To pass:</b> " in page.text
    assert "cutover batch flights" in page.text
    assert 'href="/cutover/reports/flights/20261121T040212Z-8f31.html"' in page.text


def test_page_holds_no_script_and_the_policy_allows_none(client: TestClient) -> None:
    page = client.get("/pipelines/flights")

    assert {"script", "img", "iframe", "form", "input", "button"}.isdisjoint(outline(page.text).tags)
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in page.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


def test_texts_from_data_make_no_element_and_no_control_character(client: TestClient) -> None:
    page = client.get("/pipelines/ad_views").text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert {"script", "img"}.isdisjoint(outline(page).tags)
    assert [c for c in "\x1b\r\u202e" if c in page] == []


def test_report_has_its_own_policy_and_may_only_be_framed_here(client: TestClient) -> None:
    response = client.get("/reports/flights/20261121T040212Z-8f31.html")

    assert response.status_code == 200
    assert "script-src 'sha256-" in response.headers["content-security-policy"]
    assert response.headers["content-security-policy"].endswith("frame-ancestors 'self'")


def test_table_of_a_report_is_a_download_that_runs_nothing(client: TestClient) -> None:
    response = client.get("/reports/ad_views/hostile-1.csv")

    assert response.status_code == 200
    assert response.headers["content-disposition"] == 'attachment; filename="ad_views-hostile-1.csv"'
    assert response.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/pipelines/flights", "/runbooks/NoInput", "/open?dag_id=flights_batch", "/x/y"])
def test_every_address_requires_a_user(client: TestClient, path: str) -> None:
    assert client.get(path, headers={"user": ALL}).status_code in {200, 303, 404}

    bare = TestClient(client.app, follow_redirects=False)
    assert bare.get(path).status_code == 401


@pytest.mark.parametrize(
    "path", ["/pipelines/ad_views", "/reports/ad_views/hostile-1.html", "/open?dag_id=ad_views_reconcile"]
)
def test_reader_of_another_pipeline_is_rejected(client: TestClient, path: str) -> None:
    assert client.get(path, headers={"user": SOME}).status_code == 403


def test_list_shows_only_readable_pipelines(client: TestClient) -> None:
    listing = client.get("/", headers={"user": SOME}).text

    assert "/cutover/pipelines/flights" in listing
    assert "ad_views" not in listing
    assert "/cutover/pipelines/ad_views" in client.get("/").text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/pipelines/flights", "/open", "/reports/flights/latest.html", "/anything"])
def test_no_address_takes_an_action(client: TestClient, method: str, path: str) -> None:
    assert client.request(method, path).status_code == 405


@pytest.mark.parametrize("name", ["no_such", "<script>alert(1)</script>", "flights;drop", "a" * 300, "fl%00ights"])
def test_unknown_pipeline_is_not_found_and_its_name_is_not_echoed(client: TestClient, name: str) -> None:
    response = client.get(f"/pipelines/{name}")

    assert (response.status_code, response.text) == (404, '{"detail":"Not here."}')


def test_dag_link_opens_the_newest_report_or_the_pipeline(client: TestClient) -> None:
    newest = client.get("/open?dag_id=flights_reconcile")
    other = client.get("/open?dag_id=flights_stream")

    assert newest.status_code == other.status_code == 303
    assert newest.headers["location"] == "/cutover/reports/flights/20261121T040212Z-8f31.html"
    assert other.headers["location"] == "/cutover/pipelines/flights"


def test_task_link_opens_its_own_report(client: TestClient) -> None:
    response = client.get("/open?dag_id=flights_reconcile&run_id=one&map_index=3")

    assert response.headers["location"] == "/cutover/reports/flights/20261121T040212Z-8f31.html"


def test_run_with_several_reports_lists_existing_ones(client: TestClient, installation: Settings) -> None:
    (installation.reports_dir / "flights" / "other.html").write_text("<p>other</p>")
    page = client.get("/open?dag_id=flights_reconcile&run_id=several")

    assert page.status_code == 200
    assert page.text.count("<li>") == 2
    assert "passwd" not in page.text


def test_run_without_a_report_opens_the_pipeline(client: TestClient) -> None:
    response = client.get("/open?dag_id=flights_reconcile&run_id=none&map_index=-1")

    assert response.headers["location"] == "/cutover/pipelines/flights"


@pytest.mark.parametrize("dag_id", ["someones", "someones_dag", "_reconcile", "../flights_reconcile", "<b>_reconcile"])
def test_foreign_dag_is_not_found(client: TestClient, dag_id: str) -> None:
    assert client.get("/open", params={"dag_id": dag_id}).status_code == 404


def test_page_of_an_unreadable_lake_is_shown_with_the_error(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (lake / "_control" / "gate" / "_delta_log").mkdir(parents=True)
    (lake / "_control" / "gate" / "_delta_log" / f"{0:020}.json").write_text("{")
    settings = Settings(home=tmp_path, pipelines=Path("pipelines").resolve())
    access = Access(user=user, may_read=may_read, reports_of_run=reports_of_run)
    page = TestClient(routes.make_app(settings, access), headers={"user": ALL}).get("/pipelines/flights")

    assert page.status_code == 200
    assert "Cannot be read." in page.text
    assert page.text.count("Cannot be read.") < page.text.count("<section")


def test_page_of_a_broken_definition_is_shown_with_the_reason(installation: Settings, tmp_path: Path) -> None:
    shutil.copy(installation.pipelines / "flights.py", tmp_path)
    settings = installation.model_copy(update={"pipelines": tmp_path})
    recorded_definitions.record_definition(PipelineLake(settings, catalogue.get(settings, "flights")), SystemClock())
    (tmp_path / "flights.py").write_text("def (:", encoding="utf-8")
    access = Access(user=user, may_read=may_read, reports_of_run=reports_of_run)
    client = TestClient(routes.make_app(settings, access), follow_redirects=False, headers={"user": ALL})

    index, page = client.get("/"), client.get("/pipelines/flights")

    assert (index.status_code, page.status_code) == (200, 200)
    assert "flights.py" in index.text
    assert "SyntaxError" in index.text
    assert 'href="/cutover/reports/flights/20261121T040212Z-8f31.html"' in page.text
