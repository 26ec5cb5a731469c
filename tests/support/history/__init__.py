"""What an installation has behind it, made up: comparisons, audits, self-tests, moves of the gate."""
