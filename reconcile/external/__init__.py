"""Any two tables beside one another, whoever made them."""
