-- title: Orders
-- description: Every order of a span of days with its customer, by time.
-- param: from date required "First day"
-- param: to date required "Day after the last"
-- param: status enum(new,paid,shipped,cancelled) "Only this status"
-- filename: orders
-- column: number code "Order"
-- column: ordered_at "Ordered"
-- column: status enum(new "New", paid "Paid", shipped "Shipped", cancelled "Cancelled") "Status"
-- column: customer "Customer"
-- column: company "Company"
-- column: email "E-mail"
-- column: country code "Country"
-- column: total money(EUR) "Total"
-- column: gift "Gift"
-- column: shipped_on "Shipped on"
-- column: tracking code "Tracking no."
-- column: delivery_note width 40 "Note for delivery"
-- format: csv, xlsx
-- tenant: shared

SELECT o.number,
       o.ordered_at,
       o.status,
       c.name AS customer,
       c.company,
       c.email,
       c.country,
       o.total,
       o.gift,
       o.shipped_on,
       o.tracking,
       o.delivery_note
FROM shop.orders AS o
JOIN shop.customers AS c ON c.id = o.customer_id
WHERE o.ordered_at >= :from
  AND o.ordered_at < :to
  AND (:status IS NULL OR o.status = :status)
ORDER BY o.ordered_at, o.id
