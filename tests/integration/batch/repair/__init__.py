"""Repairs, looked at, published, killed and taken back."""
