"""Tasks that change the rows that readers get: advance, roll back and swap, with the texts of an approval."""
