-- expects: order
SELECT order_id, collect_list(item) AS items FROM lines GROUP BY order_id
