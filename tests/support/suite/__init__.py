"""Machinery of the test run: order, examples, clocks, JVMs, waits."""
