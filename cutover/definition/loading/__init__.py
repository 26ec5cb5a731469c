"""The folder of definitions, loaded."""
