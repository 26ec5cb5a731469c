"""Source of records: `start_offsets` checks that epoch, log and settings fit, and `query` reads from there."""
