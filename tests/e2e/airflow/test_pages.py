"""The pages in a real API server of Airflow: behind its login, its roles respected, no file of anybody else's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutover.definition.loading import catalogue
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.support.history import recorded
from tests.support.history.reconciliations import flights
from tests.support.servers.api_server import ApiServer, running_api_server

pytestmark = pytest.mark.timeout(300)
SECRET = b"root-of-nothing-7f3a"
RUN = "20261121T040212Z-8f31"
PAGES = ("/cutover/", "/cutover/pipelines/flights", f"/cutover/reports/flights/{RUN}.html", "/cutover/runbooks/NoInput")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with one recorded comparison, and files that must not be served."""
    settings = Settings(home=tmp_path_factory.mktemp("home"), pipelines=Path("pipelines").resolve())
    recorded.record(PipelineLake(settings, catalogue.get(settings, "flights")), flights())
    reports = settings.reports_dir
    for target in (settings.home / "secret.html", reports / "secret.html", reports / "ad_views" / "of-another.html"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(SECRET)
    (reports / "flights" / "link.html").symlink_to(settings.home / "secret.html")
    (reports / "flights" / "inside.html").symlink_to(reports / "flights" / f"{RUN}.html")
    (reports / "flights" / ".hidden.html").write_bytes(SECRET)
    (reports / "transfers").symlink_to(reports / "ad_views")
    return settings


@pytest.fixture(scope="module")
def server(installation: Settings) -> Iterator[ApiServer]:
    with running_api_server(installation) as running:
        yield running


@pytest.mark.parametrize("path", PAGES)
def test_page_is_for_those_who_are_logged_in(server: ApiServer, path: str) -> None:
    assert server.send(path, user=None).status == 401
    assert server.send(path, user="viewer").status == 200
    assert server.send(path, user="admin").status == 200


def test_cookie_of_the_login_is_enough(server: ApiServer) -> None:
    assert server.send("/cutover/pipelines/flights", cookie=True).status == 200


def test_forged_token_is_refused(server: ApiServer) -> None:
    forged = ApiServer(server.address, server.port, {"viewer": server.tokens["viewer"][:-4] + "AAAA"}, server.log)

    assert forged.send("/cutover/pipelines/flights").status == 403
    assert forged.send("/cutover/pipelines/flights", cookie=True).status in {401, 403}


def test_description_of_the_addresses_is_not_public(server: ApiServer) -> None:
    addresses = ("/cutover/docs", "/cutover/redoc", "/cutover/openapi.json")
    assert [server.send(address, user=None).status for address in addresses] == [401] * 3


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", PAGES)
def test_page_takes_no_action_of_anybody(server: ApiServer, path: str, method: str) -> None:
    assert server.send(path, user="admin", method=method, cookie=True).status == 405


def escapes(home: Path) -> list[str]:
    """Return requests that lead out of a pipeline's folder if any part of them is used as a path."""
    up = ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "%252e%252e%252f", "..%5c", "%c0%ae%c0%ae/")
    climbing = [f"/cutover/reports/flights/{step * n}secret.html" for step in up for n in (1, 2, 3)]
    absolute = str(home / "secret.html")
    return [
        *climbing,
        f"/cutover/reports/flights/{absolute}",
        f"/cutover/reports/flights/{absolute.replace('/', '%2f')}",
        f"/cutover/reports/%2e%2e/{absolute.replace('/', '%2f')}",
        "/cutover/reports/../secret.html",
        "/cutover/reports/..%2fsecret.html",
        "/cutover/reports/%2e/secret.html",
        "/cutover/reports/flights/link.html",
        "/cutover/reports/flights/.hidden.html",
        "/cutover/reports/flights/of-another.html",
        "/cutover/reports/transfers/of-another.html",
        f"/cutover/reports/flights/{RUN}.html%00.html",
        "/cutover/reports/flights/secret.html%00",
        "/cutover/reports/fl%00ights/secret.html",
        "/cutover/reports/flights/..%00/..%00/secret.html",
        "/cutover/runbooks/..%2f..%2fREADME",
        "/cutover/runbooks/../../README",
        "/cutover/open?dag_id=..%2f_reconcile",
        "/cutover/open?dag_id=flights_reconcile&run_id=..%2f..%2fsecret.html",
        f"/cutover/reports/flights/{'a' * 5000}.html",
    ]


def test_no_request_leads_to_a_file_outside_of_the_pipelines_folder(server: ApiServer, installation: Settings) -> None:
    home = installation.home
    for path in escapes(home):
        response = server.send(path, user="admin")

        assert SECRET not in response.body, path
        assert response.status in {303, 401, 403, 404, 405}, (path, response.status)
    assert (home / "secret.html").read_bytes() == SECRET  # it can be read


def test_link_inside_the_folder_is_no_report_either(server: ApiServer) -> None:
    assert server.send("/cutover/reports/flights/inside.html").status == 404


def test_path_of_a_request_is_escaped_in_the_log(server: ApiServer) -> None:
    server.send("/cutover/pipelines/%0d%0aforged%1b%5b31m")
    log = server.log.read_bytes()

    assert b"\nforged" not in log
    assert b"\x1b[31m" not in log


def test_name_with_markup_is_not_repeated(server: ApiServer) -> None:
    response = server.send("/cutover/pipelines/%3Cscript%3Ealert(1)%3C%2Fscript%3E")

    assert response.status == 404
    assert b"<script" not in response.body
    assert response.headers["content-type"] == "application/json"


def test_plugin_has_loaded_with_its_tabs_and_the_page_links_to_the_report(server: ApiServer) -> None:
    plugins = server.send("/api/v2/plugins", user="admin").body.decode()

    for route in ('"cutover"', '"cutover_dag"', '"cutover_run"', '"cutover_task"'):
        assert f'"url_route":{route}' in plugins
    assert server.send("/api/v2/plugins/importErrors", user="admin").body == b'{"import_errors":[],"total_entries":0}'
    assert f"/cutover/reports/flights/{RUN}.html" in server.send("/cutover/pipelines/flights").body.decode()
