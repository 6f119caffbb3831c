-- title: Order lines
-- description: Every line of every order: the big one.
-- filename: order-lines

SELECT o.number,
       l.position,
       o.ordered_at,
       o.status,
       p.sku,
       p.name AS product,
       p.category,
       l.quantity,
       l.unit_price,
       l.discount_percent,
       l.amount
FROM shop.order_lines AS l
JOIN shop.orders AS o ON o.id = l.order_id
JOIN shop.products AS p ON p.id = l.product_id
ORDER BY l.order_id, l.position
