-- expects: none
SELECT window_start, shop, count(*) AS sales, sum(CAST(amount AS DECIMAL(18, 2))) AS revenue
FROM events GROUP BY window_start, shop
