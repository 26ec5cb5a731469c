"""A report in other forms than its page."""
