-- The demo shop, in one statement and so in one transaction. It makes schema
-- shop and fills it; where the demo's shop is already there, it does nothing.
-- Every value follows from an id, so that all copies are equal.
DO $shop$
DECLARE
  -- One row per kind of customer: Latin scripts first, then others.
  given constant text[] := ARRAY[
    ['Ada', 'Grace', 'Liam', 'Chloe', 'Owen', 'Ruby', 'Seán', 'Zoë'],
    ['Jürgen', 'Käthe', 'Günther', 'Bärbel', 'Sören', 'Heike', 'Björn', 'Anneliese'],
    ['José', 'Inés', 'François', 'Zoé', 'Ángel', 'Noëlle', 'João', 'Conceição'],
    ['Łukasz', 'Šárka', 'Gözde', 'İbrahim', 'Ștefan', 'Győző', 'Þóra', 'Đorđe'],
    ['রহিম', 'সুমাইয়া', 'তানভীর', 'নুসরাত', 'কৃষ্ণা', 'জয়ন্ত', 'শর্মিষ্ঠা', 'আরিফ'],
    ['محمد', 'فاطمة', 'يوسف', 'ليلى', 'عبد الله', 'مريم', 'خالد', 'نور'],
    ['प्रिया', 'अर्जुन', 'लक्ष्मी', 'विक्रम', 'ऋषि', 'श्रेया', 'कृष्ण', 'मीनाक्षी'],
    ['Γιώργος', 'Ελένη', 'Δημήτρης', 'Σοφία', 'Νίκος', 'Κατερίνα', 'Άννα', 'Χρήστος'],
    ['伟', '芳', '秀英', '敏', '静', '丽', '强', '磊'],
    ['さくら', '太郎', '美咲', '健一', '陽菜', '翔太', '結衣', '大輔']];
  family constant text[] := ARRAY[
    ['O''Brien', 'Smith', 'Walker-Jones', 'D''Arcy', 'McAllister', 'Young', 'Okafor', 'Nguyen'],
    ['Müller', 'Weiß', 'Schröder', 'Größl', 'Krämer', 'Jäger', 'Schäfer', 'Voß'],
    ['García', 'Muñoz', 'Lefèvre', 'Núñez', 'Gonçalves', 'Beaulieu', 'Peña', 'Castañeda'],
    ['Wójcik', 'Dvořáková', 'Yıldız', 'Öztürk', 'Ionescu', 'Szűcs', 'Jónsdóttir', 'Žižek'],
    ['চৌধুরী', 'রহমান', 'ভট্টাচার্য', 'হোসেন', 'মুখোপাধ্যায়', 'সরকার', 'দাস', 'ইসলাম'],
    ['الحداد', 'المصري', 'بن علي', 'النجار', 'الخطيب', 'عثمان', 'السيد', 'حسن'],
    ['शर्मा', 'वर्मा', 'त्रिपाठी', 'श्रीवास्तव', 'गुप्ता', 'मिश्रा', 'द्विवेदी', 'सिंह'],
    ['Παπαδόπουλος', 'Οικονόμου', 'Καραγιάννης', 'Νικολάου', 'Γεωργίου', 'Βασιλείου', 'Αθανασίου', 'Μακρής'],
    ['王', '李', '张', '刘', '陈', '欧阳', '赵', '黄'],
    ['佐藤', '鈴木', '高橋', '田中', '渡辺', '伊藤', '山本', '齋藤']];
  countries constant text[] := ARRAY['US', 'DE', 'ES', 'PL', 'BD', 'EG', 'IN', 'GR', 'CN', 'JP'];
  cities constant text[] := ARRAY['Cambridge, MA', 'Köln', 'A Coruña', 'Łódź', 'ঢাকা', 'القاهرة', 'मुंबई', 'Θεσσαλονίκη', '上海', '東京'];
  vat_rate constant numeric[] := ARRAY[0, 19, 21, 23, 15, 14, 18, 24, 13, 10];
  company constant text[] := ARRAY['"Ace" Hardware, Inc.', 'O''Brien & Sons, Ltd.', 'Müller, Söhne GmbH & Co. KG', '=Equal Goods', 'মেঘনা ট্রেডার্স',
    'شركة النيل للتجارة', '株式会社青空', 'Καφενείο «Η Γωνία»', '@home interiors', 'Smith; Jones; Partners'];
  remark constant text[] := ARRAY['', 'Prefers e-mail.', 'Rings twice,' || E'\n' || 'then waits.', 'Said: "never on a Monday"', ' mind the spaces ',
    'Gate code' || E'\t' || '0042', 'Paid in cash, twice; see the file', '=HYPERLINK("http://example.org")', 'ভোরে ফোন করবেন না', '🎁 likes surprises'];
  delivery constant text[] := ARRAY['Leave with the neighbour, please.', 'Second floor' || E'\r\n' || 'left door', 'Call before: "no bell"', 'Fragile!', '-2 °C: keep cool'];
  adjective constant text[] := ARRAY['Oak', 'Blue', 'Folding', 'Café', '24" wide', 'Small, round', 'Classic', 'Señorita', 'Naïve', 'Tall'];
  noun constant text[] := ARRAY['desk', 'lamp', 'kettle', 'bookshelf', 'garden chair', 'clock', 'teapot', 'blanket', 'notebook', 'puzzle', 'mirror', 'vase'];
  category constant text[] := ARRAY['Office', 'Lighting', 'Kitchen', 'Living', 'Garden', 'Gifts'];
BEGIN
  -- Several processes may start with the demo at once: the first one fills.
  PERFORM pg_advisory_xact_lock(7305513081436);
  IF to_regnamespace('shop') IS NOT NULL THEN
    IF obj_description(to_regnamespace('shop')::oid, 'pg_namespace') LIKE 'Fenceline demo shop%' THEN
      RETURN;
    END IF;
    RAISE EXCEPTION 'schema shop exists and is not the demo''s'
      USING HINT = 'Run the demo on another database, or rename the schema.';
  END IF;

  CREATE SCHEMA shop;
  COMMENT ON SCHEMA shop IS 'Fenceline demo shop, version 1. Drop the schema to be rid of it.';

  CREATE TABLE shop.customers (
    id integer PRIMARY KEY,
    name text NOT NULL,
    company text,
    email text UNIQUE,
    country text NOT NULL,
    city text NOT NULL,
    postcode text NOT NULL,
    note text,
    newsletter boolean NOT NULL,
    credit_limit numeric(10, 2),
    registered_at timestamptz NOT NULL
  );
  CREATE TABLE shop.products (
    id integer PRIMARY KEY,
    sku text NOT NULL UNIQUE,
    name text NOT NULL,
    category text NOT NULL,
    price numeric(10, 2) NOT NULL CHECK (price > 0),
    stock integer NOT NULL,
    reorder_level integer NOT NULL,
    weight_kg numeric(8, 3),
    attributes jsonb NOT NULL,
    tags text[] NOT NULL,
    discontinued_on date
  );
  CREATE TABLE shop.orders (
    id integer PRIMARY KEY,
    number text NOT NULL UNIQUE,
    customer_id integer NOT NULL REFERENCES shop.customers,
    status text NOT NULL CHECK (status IN ('new', 'paid', 'shipped', 'cancelled')),
    ordered_at timestamptz NOT NULL,
    shipped_on date,
    tracking bigint,
    gift boolean NOT NULL,
    delivery_note text,
    total numeric(12, 2) NOT NULL
  );
  CREATE TABLE shop.order_lines (
    order_id integer NOT NULL,
    position integer NOT NULL,
    product_id integer NOT NULL REFERENCES shop.products,
    quantity integer NOT NULL CHECK (quantity > 0),
    unit_price numeric(10, 2) NOT NULL,
    discount_percent integer NOT NULL,
    amount numeric(12, 2) NOT NULL,
    PRIMARY KEY (order_id, position)
  );
  CREATE TABLE shop.invoices (
    id integer PRIMARY KEY,
    number text NOT NULL UNIQUE,
    order_id integer NOT NULL UNIQUE REFERENCES shop.orders,
    issued_on date NOT NULL,
    due_on date NOT NULL,
    net numeric(12, 2) NOT NULL,
    vat_percent numeric(4, 2) NOT NULL,
    vat numeric(12, 2) NOT NULL,
    gross numeric(12, 2) NOT NULL,
    paid_on date
  );

  -- A number from 0 to n - 1 that looks random and depends on nothing else. The
  -- cast keeps it inlined: integer || text is only stable.
  CREATE FUNCTION shop.pick(id integer, what text, n integer) RETURNS integer LANGUAGE sql IMMUTABLE
    AS $pick$ SELECT ('x' || left(md5(id::text || what), 7))::bit(28)::integer % n $pick$;

  INSERT INTO shop.customers
  SELECT id,
    CASE WHEN k = 9 THEN family[k][f] || given[k][g] WHEN k = 10 THEN family[k][f] || ' ' || given[k][g] ELSE given[k][g] || ' ' || family[k][f] END,
    CASE WHEN shop.pick(id, 'business', 4) = 0 THEN company[1 + shop.pick(id, 'company', 10)] END,
    CASE WHEN shop.pick(id, 'no mail', 12) > 0 THEN 'customer' || id || '@example.' || (ARRAY['com', 'net', 'org'])[1 + id % 3] END,
    countries[k], cities[k], lpad(shop.pick(id, 'postcode', 90000)::text, 5, '0'),
    CASE WHEN shop.pick(id, 'has note', 3) = 0 THEN remark[1 + shop.pick(id, 'note', 10)] END,
    shop.pick(id, 'newsletter', 2) = 0,
    CASE WHEN shop.pick(id, 'credit', 5) = 0 THEN 500 * (1 + shop.pick(id, 'limit', 40)) END,
    timestamptz '2024-01-01 00:00:00+00' + make_interval(secs => 15000 * id + shop.pick(id, 'second', 15000))
  FROM generate_series(1, 2000) AS id,
    LATERAL (SELECT 1 + shop.pick(id, 'kind', 10) AS k, 1 + shop.pick(id, 'given', 8) AS g, 1 + shop.pick(id, 'family', 8) AS f OFFSET 0) AS person;

  INSERT INTO shop.products
  SELECT id, lpad((id * 7919)::text, 8, '0'),
    adjective[1 + id % 10] || ' ' || noun[1 + id / 10 % 12] || ' no. ' || id,
    category[1 + shop.pick(id, 'category', 6)],
    (199 + shop.pick(id, 'price', 24000)) / 100.0,
    shop.pick(id, 'stock', 120) - 5, 10 + 5 * shop.pick(id, 'reorder', 5),
    CASE WHEN shop.pick(id, 'weighed', 6) > 0 THEN (50 + shop.pick(id, 'weight', 30000)) / 1000.0 END,
    jsonb_build_object('colour', (ARRAY['red', 'grün', 'noir', '青'])[1 + id % 4], 'size_cm', jsonb_build_array(10 + id % 90, 20 + id % 70), 'gift', id % 7 = 0),
    (ARRAY['{}', '{new}', '{sale,"last one"}', '{"hand made",eco}'])[1 + id % 4]::text[],
    CASE WHEN shop.pick(id, 'gone', 15) = 0 THEN date '2026-01-01' + shop.pick(id, 'day', 300) END
  FROM generate_series(1, 300) AS id;

  -- OFFSET 0 keeps the planner from computing the numbers once for each use.
  INSERT INTO shop.order_lines
  SELECT o, n, p.id, quantity, p.price, discount, round(quantity * p.price * (100 - discount) / 100, 2)
  FROM (SELECT o, n, 1 + r % 300 AS product, 1 + r / 300 % 5 AS quantity, greatest(0, 5 * (r / 1500 % 8 - 5)) AS discount
    FROM (SELECT o, n, shop.pick(10 * o + n, 'line', 200000000) AS r
      FROM generate_series(1, 20000) AS o, LATERAL generate_series(1, 1 + shop.pick(o, 'lines', 4)) AS n OFFSET 0) AS chance
    ) AS line JOIN shop.products AS p ON p.id = product
  ORDER BY o, n;

  -- From the first day of 2025 to the last of November 2026; the last weeks are
  -- still on their way.
  INSERT INTO shop.orders
  SELECT id, 'A-' || lpad(id::text, 6, '0'), 1 + shop.pick(id, 'customer', 2000), status, ordered_at,
    CASE WHEN status = 'shipped' THEN (ordered_at AT TIME ZONE 'UTC')::date + 1 + shop.pick(id, 'days', 4) END,
    CASE WHEN status = 'shipped' THEN 352776136100000000 + 7919::bigint * id END,
    shop.pick(id, 'gift', 10) = 0,
    CASE WHEN shop.pick(id, 'has note', 5) = 0 THEN delivery[1 + shop.pick(id, 'note', 5)] END,
    lines.total
  FROM (SELECT order_id AS id, sum(amount) AS total FROM shop.order_lines GROUP BY order_id) AS lines,
    LATERAL (SELECT shop.pick(id, 'status', 20) AS s,
      timestamptz '2025-01-01 00:00:00+00' + make_interval(secs => 3019 * (id - 1) + shop.pick(id, 'second', 3000))
        + shop.pick(id, 'fraction', 1000000) * interval '1 microsecond' AS ordered_at OFFSET 0) AS chance,
    LATERAL (SELECT CASE WHEN s = 0 THEN 'cancelled' WHEN id > 19500 AND s < 8 THEN 'new' WHEN s = 1 OR id > 19500 AND s < 14 OR id > 19850 THEN 'paid' ELSE 'shipped' END AS status) AS fate
  ORDER BY id;

  INSERT INTO shop.invoices
  SELECT n, 'INV-' || extract(year FROM issued_on) || '-' || lpad(row_number() OVER (PARTITION BY extract(year FROM issued_on) ORDER BY n)::text, 4, '0'),
    order_id, issued_on, issued_on + 14, total, rate, round(total * rate / 100, 2), total + round(total * rate / 100, 2),
    CASE WHEN shop.pick(order_id, 'unpaid', 12) > 0 THEN issued_on + shop.pick(order_id, 'paid', 20) END
  FROM (SELECT o.id AS order_id, o.total, vat_rate[array_position(countries, c.country)] AS rate,
      row_number() OVER (ORDER BY o.id)::integer AS n, (o.ordered_at AT TIME ZONE 'UTC')::date + 1 AS issued_on
    FROM shop.orders AS o JOIN shop.customers AS c ON c.id = o.customer_id
    WHERE o.status IN ('paid', 'shipped') AND o.id % 7 IN (0, 3)) AS billed
  WHERE n <= 5000
  ORDER BY n;

  DROP FUNCTION shop.pick(integer, text, integer);
  ALTER TABLE shop.order_lines ADD FOREIGN KEY (order_id) REFERENCES shop.orders;
  CREATE INDEX ON shop.orders (ordered_at, id);
  CREATE INDEX ON shop.orders (customer_id);
  CREATE INDEX ON shop.order_lines (product_id);
  ANALYZE shop.customers, shop.products, shop.orders, shop.order_lines, shop.invoices;
END
$shop$;
