"""Strict parser of record bytes into typed columns."""
