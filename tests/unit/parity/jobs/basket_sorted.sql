-- expects: none
SELECT order_id, sort_array(collect_list(item)) AS items, size(collect_set(item)) AS different
FROM lines GROUP BY order_id
