"""Airflow plugin that shows the pages of the pipelines inside Airflow, behind its login, and adds tabs for reports.

Every Airflow process loads all plugins, task processes included, so the application is built with the first request.
Airflow does not protect the applications of plugins, so each request is authorized here with Airflow's own login (its
cookie or a token) and its own auth manager.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from cutover.reconcile.pages.routes import Access

PREFIX = "/cutover"
TASK, KEY = "compare", "report"  # where `<pipeline>_reconcile` leaves the address of a report


class _LazyPages:
    """ASGI application of the pages, built with the first request."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from cutover.reconcile.pages import routes  # noqa: PLC0415 -- brings duckdb and deltalake
            from cutover.settings import load_settings  # noqa: PLC0415 -- as above

            self._app = routes.make_app(load_settings(), make_access())
        await self._app(scope, receive, send)


def make_access() -> "Access":
    """Make the access that uses Airflow's users and runs."""
    from airflow.api_fastapi.core_api.security import get_user  # noqa: PLC0415 -- only in the API server

    from cutover.reconcile.pages.routes import Access  # noqa: PLC0415 -- brings duckdb and deltalake

    return Access(user=get_user, may_read=may_read, reports_of_run=list_reports_of_run)


def may_read(user: Any, dag_id: str) -> bool:
    """Return whether a user may read the logs of a DAG's tasks: a report says as much of the data as they do."""
    from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415 -- only in the API server
    from airflow.api_fastapi.auth.managers.models.resource_details import (  # noqa: PLC0415 -- as above
        DagAccessEntity,
        DagDetails,
    )
    from airflow.models.dag import DagModel  # noqa: PLC0415 -- as above

    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    manager, entity = get_auth_manager(), DagAccessEntity.TASK_LOGS
    return bool(manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user))


def list_reports_of_run(dag_id: str, run_id: str, map_index: int | None) -> Iterable[str]:
    """Return the addresses of reports that a run, or one mapped task of it, has left as XComs, in its tasks' order."""
    from airflow.models.xcom import XComModel  # noqa: PLC0415 -- only in the API server
    from airflow.utils.session import create_session  # noqa: PLC0415 -- as above

    map_filter = {} if map_index is None else {"map_indexes": map_index}
    query = XComModel.get_many(run_id=run_id, key=KEY, task_ids=TASK, dag_ids=dag_id, **map_filter)
    with create_session(scoped=False) as session:
        rows = sorted(session.scalars(query), key=lambda row: row.map_index)
        return [str(XComModel.deserialize_value(row)) for row in rows]


def _view(destination: str, name: str, route: str, href: str) -> dict[str, Any]:
    return {"name": name, "href": f"{PREFIX}/{href}", "destination": destination, "url_route": route}


class CutoverPages(AirflowPlugin):
    """Navigation entry, and a tab on each DAG, DAG run and task instance."""

    name = "cutover"
    fastapi_apps = [{"app": _LazyPages(), "url_prefix": PREFIX, "name": "cutover"}]  # noqa: RUF012 -- as Airflow reads it
    external_views = [  # noqa: RUF012 -- as above
        _view("nav", "Cutover", "cutover", ""),
        _view("dag", "Cutover", "cutover_dag", "open?dag_id={DAG_ID}"),
        _view("dag_run", "Report", "cutover_run", "open?dag_id={DAG_ID}&run_id={RUN_ID}"),
        _view(
            "task_instance",
            "Report",
            "cutover_task",
            "open?dag_id={DAG_ID}&run_id={RUN_ID}&map_index={MAP_INDEX}",
        ),
    ]
