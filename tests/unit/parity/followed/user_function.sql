-- expects: not-understood
SELECT normalize_phone(phone) AS phone, count(*) AS n FROM customers GROUP BY 1
