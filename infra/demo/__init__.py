"""Demonstrations of both paths, run by Airflow.

`demonstration` compares both paths over a year of departures; `retirement` retires batch and detects a planted defect
by an audit. `inputs` sends their records, `runs` triggers and watches DAG runs.
"""
