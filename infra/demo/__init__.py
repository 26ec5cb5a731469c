"""The demonstration: a year of departures through both paths, by Airflow."""
