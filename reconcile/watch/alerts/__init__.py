"""Alerts: one `AlertSpec` each.

`driver` (with the log) and `data` (event time, records, results and tables) hold the rules and, after them, the specs.
`catalogue` lists all specs, evaluates them over the facts and writes what follows from the list: rules of Prometheus,
routing of Alertmanager, tables of the documents, heads of the runbooks.
"""
