-- expects: none
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY updated_at DESC, _partition, _offset) AS rn
FROM changes) WHERE rn = 1
