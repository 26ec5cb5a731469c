"""Alerts: one `AlertSpec` each.

`log` (with records), `driver` (with event time) and `results` (with tables) hold the rules and, at their ends, the
specs. `catalogue` lists all specs, evaluates them over the facts and writes what follows from the list: rules of
Prometheus, routing of Alertmanager, tables of the documents, heads of the runbooks.
"""
