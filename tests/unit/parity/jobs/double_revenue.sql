-- expects: float-sum
SELECT day, sum(CAST(price AS DOUBLE) * quantity) AS revenue FROM sales GROUP BY day
