"""`cutover diff` over real files."""
