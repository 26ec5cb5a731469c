"""What is refused, and what is only warned of, with file, field and hint."""
