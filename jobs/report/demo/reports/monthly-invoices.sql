-- title: Monthly invoices
-- description: One invoice for every customer with orders in a month.
-- param: month text required "Month, such as 2026-03"
-- series: shop
-- filename: monthly-invoices
-- tenant: shared

SELECT c.id::text AS customer,
       jsonb_build_object(
         'issue_date', to_char(last_day, 'YYYY-MM-DD'),
         'due_date', to_char(last_day + 14, 'YYYY-MM-DD'),
         'currency', 'EUR',
         'issuer', jsonb_build_object('name', 'Fenceline Demo Shop GmbH', 'tax_id', 'DE123456789',
           'address', jsonb_build_array('Am Zaun 1', '20095 Hamburg', 'Germany')),
         'customer', jsonb_build_object('name', coalesce(c.company, c.name),
           'address', jsonb_build_array(c.name, c.postcode || ' ' || c.city, c.country)),
         'lines', jsonb_agg(jsonb_build_object(
           'description', o.number || ' · ' || p.name,
           'quantity', l.quantity::text,
           'unit_price', l.unit_price::text,
           'discount_percent', l.discount_percent::text,
           'tax_rate', '19') ORDER BY o.ordered_at, o.id, l.position)) AS document
FROM shop.orders AS o
JOIN shop.customers AS c ON c.id = o.customer_id
JOIN shop.order_lines AS l ON l.order_id = o.id
JOIN shop.products AS p ON p.id = l.product_id
CROSS JOIN LATERAL (SELECT (to_date(:month, 'YYYY-MM') + interval '1 month')::date - 1 AS last_day) AS m
WHERE o.ordered_at >= to_date(:month, 'YYYY-MM') AND o.ordered_at < m.last_day + 1 AND o.status <> 'cancelled'
GROUP BY c.id, m.last_day
ORDER BY c.id
