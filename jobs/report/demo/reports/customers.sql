-- title: Customers
-- description: All customers with what they have bought.
-- filename: customers
-- column: id code "Customer no."
-- column: name "Name"
-- column: company "Company"
-- column: email "E-mail"
-- column: country code "Country"
-- column: city "City"
-- column: postcode code "Postcode"
-- column: newsletter "Newsletter"
-- column: credit_limit money(EUR) "Credit limit"
-- column: registered_at "Registered"
-- column: note width 40 "Note"
-- column: orders "Orders"
-- column: bought money(EUR) "Bought for"
-- column: last_order_at "Last order"
-- format: csv, xlsx
-- tenant: shared

SELECT c.id,
       c.name,
       c.company,
       c.email,
       c.country,
       c.city,
       c.postcode,
       c.newsletter,
       c.credit_limit,
       c.registered_at,
       c.note,
       count(o.id) AS orders,
       coalesce(sum(o.total), 0.00) AS bought,
       max(o.ordered_at) AS last_order_at
FROM shop.customers AS c
LEFT JOIN shop.orders AS o ON o.customer_id = c.id AND o.status <> 'cancelled'
GROUP BY c.id
ORDER BY c.id
