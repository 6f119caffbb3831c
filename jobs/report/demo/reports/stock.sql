-- title: Stock
-- description: Products with what is left of them and what was sold.
-- param: category enum(Office,Lighting,Kitchen,Living,Garden,Gifts) "Only this category"
-- param: low boolean default false "Only what has to be ordered again"
-- column: sku code "SKU"
-- column: name "Product"
-- column: category "Category"
-- column: price money(EUR) "Price"
-- column: stock "In stock"
-- column: reorder_level "Reorder at"
-- column: low "Low"
-- column: sold "Sold"
-- column: weight_kg decimal(3) "Weight (kg)"
-- column: attributes "Attributes"
-- column: tags "Tags"
-- column: discontinued_on "Discontinued"
-- format: csv
-- tenant: shared
-- filename: stock

SELECT p.sku,
       p.name,
       p.category,
       p.price,
       p.stock,
       p.reorder_level,
       p.stock < p.reorder_level AS low,
       coalesce(sold.quantity, 0) AS sold,
       p.weight_kg,
       p.attributes,
       p.tags,
       p.discontinued_on
FROM shop.products AS p
LEFT JOIN (
  SELECT product_id, sum(quantity) AS quantity
  FROM shop.order_lines
  GROUP BY product_id
) AS sold ON sold.product_id = p.id
WHERE (:category IS NULL OR p.category = :category)
  AND (NOT :low OR p.stock < p.reorder_level)
ORDER BY p.category, p.name, p.id
