import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { MIGRATIONS_DIR, migrate } from '../src/platform/db/migrations.ts';
import { openSession } from '../src/platform/db/pool.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:migrations` applies migrations to a database with a million devices whose fleet is at work, and reports
 * for each how long it took, how long the slowest statement of the fleet waited meanwhile, and how many were refused as
 * victims of a deadlock. `DEVICES` sets the size; `SINCE` names the last migration of the release that the database comes
 * from. Without it, all migrations after the baseline are applied.
 */

const DEVICES = Number(process.env['DEVICES'] ?? 1_000_000);
const SINCE = process.env['SINCE'] ?? '0020';
const CLIENTS = 6;
/** What an operator would notice: agents give up on an acknowledgement after 10 s. */
const WAIT_MAX_MS = 3000;
const DEADLOCK = '40P01';

/** What a fleet and its people do all the time: heartbeats are written, pages of devices are read, people sign in. */
const STATEMENTS: readonly ((n: number) => { text: string; values: unknown[] })[] = [
  (n) => ({
    text: `update device_presence set last_seen_at = now() where device_id in (
      select md5('device' || i)::uuid from generate_series($1::int - 99, $1::int) i)`,
    values: [n],
  }),
  (n) => ({
    text: `select d.id, d.hostname, p.state from devices d join device_presence p on p.device_id = d.id
      where d.org_id = md5('org' || $1::int % 100)::uuid order by lower(d.hostname), d.id limit 50`,
    values: [n],
  }),
  () => ({
    text: `select * from sessions s join users u on u.id = s.user_id where s.id = gen_random_uuid()`,
    values: [],
  }),
];

const database = await createTestDatabase({ migrated: false, durable: true });
const directory = await mkdtemp(path.join(tmpdir(), 'muster-bench-migrations-'));
try {
  const names = (await readdir(MIGRATIONS_DIR)).filter((name) => name.endsWith('.sql')).sort();
  const isBefore = (name: string) => name.slice(0, 4) <= SINCE;
  for (const name of names.filter(isBefore)) await release(name);
  await upgrade();
  console.log(`Creating ${DEVICES} devices …`);
  await createFleet();

  const quiet = await underLoad(async () => delay(5000));
  const rows = [{ migration: '(none, for 5 s)', 'took ms': 5000, ...quiet }];
  for (const name of names.filter((one) => !isBefore(one))) {
    await release(name);
    const begun = performance.now();
    const load = await underLoad(upgrade);
    rows.push({ migration: name, 'took ms': Math.round(performance.now() - begun), ...load });
  }
  console.table(rows);
  const longest = Math.max(...rows.map((row) => row['slowest statement ms']));
  const refused = rows.reduce((sum, row) => sum + row.refused, 0);
  console.log(JSON.stringify({ devices: DEVICES, since: SINCE, longestWaitMs: longest, refused }));
  if (longest > WAIT_MAX_MS) {
    console.error(`A statement of the fleet waited for ${longest} ms, longer than ${WAIT_MAX_MS} ms.`);
    process.exitCode = 1;
  }
} finally {
  await rm(directory, { recursive: true, force: true });
  await database.drop();
  await stopTestPostgres();
}

async function release(name: string): Promise<void> {
  await copyFile(path.join(MIGRATIONS_DIR, name), path.join(directory, name));
}

async function upgrade(): Promise<void> {
  const owner = openSession(database.ownerUrl, 'migrations');
  const lock = openSession(database.ownerUrl, 'migration lock');
  try {
    await migrate(owner, lock, { directory });
  } finally {
    await owner.destroy();
    await lock.destroy();
  }
}

/** A hundred organizations share the devices. The ids follow from a number, so that the load can choose one. */
async function createFleet(): Promise<void> {
  await asOwner(
    database.ownerUrl,
    `insert into partners (id, name, slug, status) values (md5('partner')::uuid, 'Bench', 'bench', 'active');
    insert into organizations (id, partner_id, name, slug)
      select md5('org' || n)::uuid, md5('partner')::uuid, 'Organization ' || n, 'org-' || n from generate_series(0, 99) n;
    insert into sites (id, org_id, name)
      select md5('site' || n)::uuid, md5('org' || n)::uuid, 'Site ' || n from generate_series(0, 99) n;
    insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select md5('device' || n)::uuid, md5('org' || n % 100)::uuid, md5('site' || n % 100)::uuid, 'host-' || n, 'linux',
        '12', 'x64', '0.1.0', now() from generate_series(1, ${DEVICES}) n;
    insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason)
      select md5('device' || n)::uuid, md5('org' || n % 100)::uuid, 1, 'node', 'connected', now(), 'connected'
      from generate_series(1, ${DEVICES}) n;
    analyze`,
  );
}

/** Runs `work` while clients send statements without a pause, and answers how they fared. */
async function underLoad(
  work: () => Promise<void>,
): Promise<{ statements: number; 'slowest statement ms': number; refused: number }> {
  const load = { isOver: false };
  let statements = 0;
  let slowest = 0;
  let refused = 0;
  const noteRefusal = (error: unknown) => {
    if (!(error instanceof pg.DatabaseError) || error.code !== DEADLOCK) throw error;
    refused += 1;
  };
  const clients = Array.from({ length: CLIENTS }, async (_, index) => {
    const client = new pg.Client({ connectionString: database.ownerUrl });
    await client.connect();
    try {
      for (let turn = index; !load.isOver; turn++) {
        const statement = STATEMENTS[turn % STATEMENTS.length];
        if (statement === undefined) continue;
        const begun = performance.now();
        // Each client has devices of its own, as each node has: two writers of one batch would lock each other out.
        await client
          .query(statement(Math.ceil((index + Math.random()) * (DEVICES / CLIENTS))))
          .catch(noteRefusal);
        slowest = Math.max(slowest, performance.now() - begun);
        statements += 1;
      }
    } finally {
      await client.end();
    }
  });
  try {
    await work();
  } finally {
    load.isOver = true;
    await Promise.all(clients);
  }
  return { statements, 'slowest statement ms': Math.round(slowest), refused };
}
