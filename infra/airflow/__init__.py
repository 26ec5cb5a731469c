"""Airflow on one machine: its environment, its DAG files, and a client of its API."""
