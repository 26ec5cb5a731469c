"""Access rights and reports of runs from Airflow; imported only by its API server.

Airflow does not protect the applications of plugins, so each request is authorized here with Airflow's own login (its
cookie or a token) and its own auth manager.
"""

from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

from cutover.reconcile.pages.routes import Access

TASK, KEY = "compare", "report"  # where `<pipeline>_reconcile` leaves the address of a report


def make_access() -> Access:
    """Make the access that uses Airflow's users and runs."""
    return Access(user=get_user, may_read=may_read, reports_of_run=list_reports_of_run)


def may_read(user: Any, dag_id: str) -> bool:
    """Return whether a user may read the logs of a DAG's tasks: a report says as much of the data as they do."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    manager, entity = get_auth_manager(), DagAccessEntity.TASK_LOGS
    return bool(manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user))


def list_reports_of_run(dag_id: str, run_id: str, map_index: int | None) -> Iterable[str]:
    """Return the addresses of reports that a run, or one mapped task of it, has left as XComs, in its tasks' order."""
    map_filter = {} if map_index is None else {"map_indexes": map_index}
    query = XComModel.get_many(run_id=run_id, key=KEY, task_ids=TASK, dag_ids=dag_id, **map_filter)
    with create_session(scoped=False) as session:
        rows = sorted(session.scalars(query), key=lambda row: row.map_index)
        return [str(XComModel.deserialize_value(row)) for row in rows]
