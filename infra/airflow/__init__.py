"""Airflow on one machine.

`instance` is its environment, its processes and the samples that have DAGs, `bundle` touches its DAG files when a
definition changes, and `api` is a client of its REST API.
"""
