-- expects: none
SELECT shop, count(*) AS n FROM sales GROUP BY shop ORDER BY n DESC, shop LIMIT 10
