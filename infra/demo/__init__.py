"""Demonstration of both paths on a year of departures, run by Airflow."""
