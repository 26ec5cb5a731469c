-- expects: ties
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY updated_at DESC) AS rn FROM changes)
WHERE rn = 1
