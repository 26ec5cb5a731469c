"""Import errors of pipeline definitions that do not load; this file has no DAG.

An import error removes all DAGs of a file from Airflow. Therefore the DAG factories leave out broken definitions, and
only this file fails to import, with a message that names each definition's file. Fix the definition (`cutover lint`
describes the error); the import error disappears with the next parse. Airflow parses this file because it contains the
words airflow and dag.
"""

from dag_parts import broken_definitions

from cutover.errors import DefinitionError

if problems := broken_definitions():
    msg = "\n\n".join(str(problem) for problem in problems)
    raise DefinitionError(msg)
