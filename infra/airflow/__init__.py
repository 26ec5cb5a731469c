"""Airflow on one machine.

`instance` is its environment, its processes, the samples that have DAGs, and the client of its REST API; `bundle`
touches its DAG files when a definition changes.
"""
