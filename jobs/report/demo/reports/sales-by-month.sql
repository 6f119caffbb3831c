-- title: Sales by month
-- description: Orders, customers and turnover of every month of a year, without cancelled orders.
-- param: year integer default 2026 "Year"
-- filename: sales-by-month
-- column: month code "Month"
-- column: orders "Orders"
-- column: customers "Customers"
-- column: turnover money(EUR) "Turnover"
-- column: average_order money(EUR) "Average order"
-- format: csv, xlsx
-- tenant: shared

SELECT to_char(o.ordered_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
       count(*) AS orders,
       count(DISTINCT o.customer_id) AS customers,
       sum(o.total) AS turnover,
       round(avg(o.total), 2) AS average_order
FROM shop.orders AS o
WHERE extract(year FROM o.ordered_at AT TIME ZONE 'UTC') = :year
  AND o.status <> 'cancelled'
GROUP BY month
ORDER BY month
