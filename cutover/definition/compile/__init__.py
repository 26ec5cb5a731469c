"""What the runners take from a definition: SQL texts, types, fingerprints."""
