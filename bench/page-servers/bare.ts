import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';

/** The baseline: a single prepared query as the owner, without row-level security, returned as JSON. */

const { BENCH_OWNER_URL = '', BENCH_PARTNER_ID = '', BENCH_POOL = '10' } = process.env;
const pool = new pg.Pool({ connectionString: BENCH_OWNER_URL, max: Number(BENCH_POOL) });

const PAGE = {
  name: 'page',
  text: `select id, partner_id as "partnerId", name, slug, type, status, max_devices as "maxDevices", settings,
    sso_config as "ssoConfig", contract_start as "contractStart", contract_end as "contractEnd",
    billing_contact as "billingContact", created_at as "createdAt", updated_at as "updatedAt",
    deleted_at as "deletedAt",
    (select count(*)::int from organizations where partner_id = $1 and deleted_at is null) as total
  from organizations where partner_id = $1 and deleted_at is null order by lower(name), id limit 50`,
  values: [BENCH_PARTNER_ID],
};

async function page(): Promise<string> {
  const { rows } = await pool.query<{ total?: number }>(PAGE);
  const total = rows[0]?.total ?? 0;
  for (const row of rows) delete row.total;
  return JSON.stringify({ data: rows, pagination: { page: 1, limit: 50, total } });
}

const server = createServer((_request, response) => {
  response.setHeader('content-type', 'application/json');
  page().then(
    (body) => response.end(body),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
server.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once('disconnect', () => {
  server.close();
  server.closeAllConnections();
  void pool.end();
});
