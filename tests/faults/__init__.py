"""What may break, broken on purpose: faults are values, one test runs them all, a table says what was proven."""
