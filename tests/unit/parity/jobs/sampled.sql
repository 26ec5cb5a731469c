-- expects: random, limit
SELECT device, avg(temperature) AS mean FROM readings TABLESAMPLE (10 PERCENT) GROUP BY device LIMIT 100
