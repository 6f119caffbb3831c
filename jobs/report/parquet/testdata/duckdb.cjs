// Asks DuckDB about a Parquet file, for the tests:
//   node duckdb.cjs NODE_MODULES < statements.json
// takes a list of SQL statements and prints, for each, {"columns": […],
// "types": […], "rows": [[…]], "cpu": seconds, "rss": bytes at most so far}.
const fs = require('node:fs');
const path = require('node:path');
const { DuckDBInstance } = require(path.join(process.argv[2], '@duckdb', 'node-api'));

async function main() {
  const statements = JSON.parse(fs.readFileSync(0, 'utf8'));
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const answers = [];
  for (const sql of statements) {
    const before = process.cpuUsage();
    const reader = await connection.runAndReadAll(sql);
    const used = process.cpuUsage(before);
    answers.push({
      columns: reader.columnNames(),
      types: reader.columnTypes().map(String),
      rows: reader.getRowsJson(),
      cpu: (used.user + used.system) / 1e6,
      rss: process.resourceUsage().maxRSS * 1024,
    });
  }
  process.stdout.write(JSON.stringify(answers));
}

main().catch((e) => { console.error(String(e)); process.exit(1); });
