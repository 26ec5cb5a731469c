"""Strict parser of record bytes into typed columns, with the `limits` that every parser follows."""
