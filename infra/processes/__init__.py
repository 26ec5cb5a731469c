"""Processes of an installation: started under one supervisor, told apart by identity, measured, stopped."""
