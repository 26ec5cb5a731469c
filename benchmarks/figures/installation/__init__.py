"""Figures of a whole installation: broker, Airflow, drivers and watch as a user runs them."""
