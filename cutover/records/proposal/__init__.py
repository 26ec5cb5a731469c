"""Draft of a definition by `cutover init`: inferred schema, lateness and window, and the file with explanations."""
