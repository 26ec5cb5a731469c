"""Kafka broker of an installation."""
