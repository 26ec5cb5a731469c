"""What is shown of figures: goals, the machine, the page, its pictures."""
