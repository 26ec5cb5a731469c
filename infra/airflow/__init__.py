"""Airflow on one machine: its environment, and a small client of its API."""
