"""Repairs: some windows computed anew beside the tables, looked at, then published or put away; and taken back."""
