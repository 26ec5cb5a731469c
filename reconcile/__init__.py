"""Table against table: seal, digests, diff, causes, verdict. Knows neither path; reads tables and the log."""
