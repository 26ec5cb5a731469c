"""The outcome of a comparison as one frozen tree, its JSON, and how tables are queried for it."""
