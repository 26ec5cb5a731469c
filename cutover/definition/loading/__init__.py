"""Loading of definitions and acceptance rules from files."""
