-- arithmetic
i + j
i - j
i * j
n + m
n - m
n * m
i + n
x + y
x - y
x * y
i * 1.5
x + i
-i
-n
-x
i / j
n / m
x / y
i % j
n % m
d + e
d - e
d * e
d + 1
d * 2
d + 0.5
-d
i + 1 - j * 2
-2147483648 + i
9223372036854775807 + n
d / e
i / 0
(x + y) / (x - y)
-- comparison
i = j
i <> j
i < j
i <= j
i > j
i >= j
i <=> j
i IS DISTINCT FROM j
n = i
x = y
x < y
x = i
n < x
d = e
d < 1.5
d > i
s = t
s < t
s >= t
s <=> t
p < q
p = q
v < w
v <= p
b = c
p >= TIMESTAMP '1970-01-01 00:00:00'
v = DATE '2000-02-29'
i + 1 > j
-- logic
b AND c
b OR c
NOT b
b AND i / j > 1
b OR i / j > 1
i IS NULL
i IS NOT NULL
b IS TRUE
b IS FALSE
b IS NOT TRUE
i + j IS NULL
i > 0 AND (j > 0 OR b)
NOT (i / j > 0)
i IN (1, 7, -1)
i NOT IN (1, NULL)
s IN ('UA', '', 'ß')
n IN (i, 1000)
i BETWEEN -1 AND 7
s BETWEEN 'A' AND 'a'
x NOT BETWEEN y AND 1
s LIKE 'a%'
s LIKE '%_b'
s NOT LIKE '_'
s LIKE ''
s LIKE '%x%'
-- conditionals
CASE WHEN i > 0 THEN i ELSE j END
CASE WHEN j <> 0 THEN i / j END
CASE WHEN j = 0 THEN 0 ELSE i % j END
CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' ELSE 'many' END
CASE WHEN i / j > 0 THEN 1 WHEN b THEN i + j ELSE n END
IF(b, i, j)
IF(j = 0, 0, i % j)
COALESCE(i, j)
COALESCE(i, i + j)
COALESCE(s, t, 'none')
NVL(n, 0)
IFNULL(x, 0)
NULLIF(i, j)
NULLIF(s, '')
COALESCE(NULL, i)
CASE WHEN b THEN NULL ELSE d END
CASE WHEN b THEN 1 ELSE x END
IF(x * y > 1, x * y, 0)
-- casts
CAST(i AS bigint)
CAST(i AS double)
CAST(i AS string)
CAST(n AS string)
CAST(b AS string)
CAST(b AS int)
CAST(n AS int)
CAST(n AS double)
CAST(x AS int)
CAST(x AS bigint)
CAST(s AS int)
CAST(s AS bigint)
CAST(s AS double)
CAST(s AS date)
CAST(s AS timestamp)
CAST(p AS date)
CAST(v AS timestamp)
CAST(v AS string)
CAST(d AS double)
CAST(i AS decimal(8,2))
CAST(n AS decimal(19,0))
CAST(d AS decimal(6,3))
TRY_CAST(s AS int)
CAST(NULL AS int)
i :: bigint
CAST(TRIM(s) AS int)
CAST(x * y AS int)
-- text
length(s)
trim(s)
ltrim(s)
rtrim(s)
s || t
concat(s, '-', t)
substring(s, 1, 2)
substring(s, 2)
left(s, 3)
replace(s, 'a', '')
translate(s, 'AU1', 'au')
startswith(s, t)
endswith(s, t)
contains(s, t)
md5(s)
'it\'s' || s
'\\' || s
-- numbers
abs(i)
abs(n)
abs(x)
abs(d)
floor(x)
ceil(x)
floor(i)
greatest(i, j)
least(n, m, i)
greatest(x, y)
least(s, t)
greatest(p, q)
floor(x / 10)
least(d, e)
-- time
year(p)
quarter(p)
month(p)
day(p)
hour(p)
minute(p)
second(p)
dayofweek(p)
year(v)
month(v)
day(v)
dayofweek(v)
date_trunc('HOUR', p)
date_trunc('DAY', p)
date_trunc('WEEK', p)
date_trunc('MONTH', p)
date_trunc('QUARTER', p)
date_trunc('YEAR', p)
date_trunc('MINUTE', p)
date_trunc('second', p)
datediff(v, w)
datediff(CAST(p AS date), v)
unix_micros(p)
quarter(v)
