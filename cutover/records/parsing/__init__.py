"""From the bytes of a record to typed columns."""
