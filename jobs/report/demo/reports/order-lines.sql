-- title: Order lines
-- description: Every line of every order: the big one.
-- filename: order-lines
-- column: number code "Order"
-- column: position "Line"
-- column: ordered_at "Ordered"
-- column: status enum(new "New", paid "Paid", shipped "Shipped", cancelled "Cancelled") "Status"
-- column: sku code "SKU"
-- column: product "Product"
-- column: category "Category"
-- column: quantity "Quantity"
-- column: unit_price money(EUR) "Unit price"
-- column: discount percent decimals 0 "Discount"
-- column: amount money(EUR) "Amount"
-- format: csv
-- tenant: shared

SELECT o.number,
       l.position,
       o.ordered_at,
       o.status,
       p.sku,
       p.name AS product,
       p.category,
       l.quantity,
       l.unit_price,
       round(l.discount_percent / 100.0, 2) AS discount,
       l.amount
FROM shop.order_lines AS l
JOIN shop.orders AS o ON o.id = l.order_id
JOIN shop.products AS p ON p.id = l.product_id
ORDER BY l.order_id, l.position
