"""Holds no DAG: shows definitions that do not load as an import error of this file, so that all DAGs keep running.

An import error of a DAG file takes every DAG of that file away; therefore the factories leave broken definitions out,
and this file alone fails for them. It names each definition's file. Mend the definition (`cutover lint` says what is
wrong) and the error goes with the next parse. Airflow finds this file by the words airflow and dag in it.
"""

from definitions import broken_definitions

from cutover.errors import DefinitionError

if problems := broken_definitions():
    text = "\n\n".join(str(problem) for problem in problems)
    raise DefinitionError(text)
