"""Alerts: one `AlertSpec` each.

`log`, `driver` (with event time), `results` (with tables) and `records` hold the rules and, at their ends, the specs.
`catalogue` lists all specs and evaluates them over the facts; `generated` writes what follows from the list: rules of
Prometheus, routing of Alertmanager, tables of the documents, heads of the runbooks.
"""
