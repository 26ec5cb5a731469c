"""Airflow plugin that shows the pages of the pipelines inside Airflow, behind its login, and adds tabs for reports.

Every Airflow process loads all plugins, task processes included, so the application is built with the first request.
"""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/cutover"


class _LazyPages:
    """ASGI application of the pages, built with the first request."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from cutover.reconcile.pages import airflow_access, routes  # noqa: PLC0415 -- brings duckdb and deltalake
            from cutover.settings import load_settings  # noqa: PLC0415 -- as above

            self._app = routes.make_app(load_settings(), airflow_access.make_access())
        await self._app(scope, receive, send)


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
