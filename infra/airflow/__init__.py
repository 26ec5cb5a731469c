"""Airflow on one machine.

`instance` is its environment and processes, `bundle` touches its DAG files when a definition changes, `samples` lists
the samples that have DAGs, and `api` is a client of its REST API.
"""
