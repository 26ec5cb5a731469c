"""Demonstrations of both paths, run by Airflow.

`demonstration` compares both paths over a year of departures, whose records it sends; `retirement` retires batch and
detects a planted defect by an audit. `runs` triggers and watches DAG runs.
"""
