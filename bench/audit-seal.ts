import { setTimeout as delay } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import { CHAIN_START, seal, type ChainEnd } from '../src/features/audit/chain.ts';
import { checkStored } from '../src/features/audit/stored-check.ts';
import { openPool } from '../src/platform/db/pool.ts';

import { withSystem, runPrepared } from '../src/platform/db/transaction.ts';
import { type AuditBench, createAuditBench } from '../test/support/audit/audit-support.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:audit-seal` measures the sealing of entries of one busy organization. The baseline chains each row
 * in its own transaction under the same lock, on eight connections; both alternate on the same database. Then it
 * measures how long entries wait while 2,000 arrive per second. All entries are verified at the end.
 */

const TURNS = 3;
const BASELINE_MS = 4000;
const BASELINE_CONNECTIONS = 8;
const ENTRIES = 40_000;
const RATE = 2000;
const RATE_SECONDS = 15;

const bench = await createAuditBench();
/** The baseline: each action appends its entry to the chain itself (lock, read the end, hash, insert, commit). */
async function rowAtATime(orgId: string): Promise<number> {
  const db = openPool(bench.database.appUrl, { max: BASELINE_CONNECTIONS, name: 'row-at-a-time' });
  const until = performance.now() + BASELINE_MS;
  let rows = 0;
  const since = performance.now();
  await Promise.all(
    Array.from({ length: BASELINE_CONNECTIONS }, async () => {
      while (performance.now() < until) {
        await oneRow(db, orgId);
        rows++;
      }
    }),
  );
  const seconds = (performance.now() - since) / 1000;
  await db.destroy();
  return Math.round(rows / seconds);
}

async function oneRow(db: AuditBench['db'], orgId: string): Promise<void> {
  await withSystem(db, 'bench', async (tx) => {
    await runPrepared(tx, LOCK, [orgId]);
    const [last] = await runPrepared<{ seq: string; checksum: string }>(tx, LAST, [orgId]);
    const end: ChainEnd =
      last === undefined ? CHAIN_START : { seq: Number(last.seq), checksum: last.checksum };
    const [entry] = seal([sample(orgId)], end);
    if (entry === undefined) return;
    await runPrepared(tx, INSERT, [
      entry.id,
      entry.orgId,
      entry.timestamp,
      entry.actorId,
      entry.resourceId,
      entry.resourceName,
      JSON.stringify(entry.details),
      entry.seq,
      entry.checksum,
      entry.prevChecksum,
    ]);
  });
}

const LOCK = {
  name: 'bench-lock',
  text: `select pg_advisory_xact_lock(hashtextextended('audit:' || $1::text, 0))`,
};
const LAST = {
  name: 'bench-last',
  text: 'select seq, checksum from audit_logs where chain_id = $1 order by seq desc limit 1',
};
const INSERT = {
  name: 'bench-insert',
  text: `insert into audit_logs (id, org_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
      resource_id, resource_name, details, ip_address, user_agent, result, seq, checksum, prev_checksum)
    values ($1, $2, $3, 'user', $4, 'who@example.com', 'site.update', 'site', $5, $6, $7, '10.0.0.1', 'Mozilla/5.0',
      'success', $8, $9, $10)`,
};

const sample = (orgId: string) => ({
  id: randomUUID(),
  orgId,
  partnerId: null,
  timestamp: new Date().toISOString(),
  actorType: 'user',
  actorId: randomUUID(),
  actorEmail: 'who@example.com',
  action: 'site.update',
  resourceType: 'site',
  resourceId: randomUUID(),
  resourceName: 'Head office',
  details: { n: 1, changedFields: ['name'] },
  ipAddress: '10.0.0.1',
  userAgent: 'Mozilla/5.0',
  result: 'success',
  errorMessage: null,
});

/** Moves entries from the outbox into the chain. Writing to the outbox is part of the action and not counted. */
async function sealing(orgId: string): Promise<number> {
  await bench.add(ENTRIES, { orgId, name: 'Head office ' });
  const since = performance.now();
  await bench.sealer.flush();
  return Math.round((ENTRIES / (performance.now() - since)) * 1000);
}

/** Writes entries one by one, each in its own transaction, as actions do. */
async function lagUnderLoad() {
  const lags: number[] = [];
  const orgId = await bench.organization();
  const sealer = bench.anotherSealer({}, undefined, (seconds) => lags.push(seconds * 1000));
  const db = openPool(bench.database.appUrl, { max: 4, name: 'deeds' });
  const total = RATE * RATE_SECONDS;
  const since = performance.now();
  let written = 0;
  while (written < total) {
    const due = Math.min(total, Math.floor(((performance.now() - since) / 1000) * RATE));
    await Promise.all(Array.from({ length: due - written }, () => deed(db, orgId)));
    written = due;
    sealer.wake();
    await delay(5);
  }
  const seconds = (performance.now() - since) / 1000;
  await sealer.close();
  await db.destroy();
  lags.sort((a, b) => a - b);
  const at = (share: number) => Math.round(lags[Math.floor((lags.length - 1) * share)] ?? Number.NaN);
  return { 'written/s': Math.round(written / seconds), 'lag p50 ms': at(0.5), 'lag p99 ms': at(0.99) };
}

async function deed(db: AuditBench['db'], orgId: string): Promise<void> {
  await withSystem(db, 'bench', (tx) =>
    runPrepared(tx, DEED, [randomUUID(), orgId, randomUUID(), new Date().toISOString()]),
  );
}

const DEED = {
  name: 'bench-deed',
  text: `insert into audit_outbox (id, org_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
      resource_id, resource_name, details, ip_address, user_agent, result)
    values ($1, $2, $4, 'user', $3, 'who@example.com', 'site.update', 'site', $3, 'Head office', '{"n": 1}', '10.0.0.1',
      'Mozilla/5.0', 'success')`,
};

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function round(value: number): number {
  return Number(value.toFixed(1));
}

try {
  const rates: { baseline: number[]; sealer: number[] } = { baseline: [], sealer: [] };
  await bench.add(5000);
  await bench.sealer.flush();
  for (let turn = 0; turn < TURNS; turn++) {
    rates.baseline.push(await rowAtATime(await bench.organization()));
    rates.sealer.push(await sealing(await bench.organization()));
  }
  const lag = await lagUnderLoad();
  const report = await checkStored(bench.db, { own: bench.keys });
  if (report.faults.some(({ reason }) => !reason.includes('head of the chain is missing'))) {
    throw new Error(JSON.stringify(report.faults));
  }
  const [baseline, sealer] = [median(rates.baseline), median(rates.sealer)];
  const figures = {
    'row by row/s': baseline,
    'sealed/s': sealer,
    ratio: round(sealer / baseline),
    ...lag,
  };
  console.table(figures);
  console.log(JSON.stringify({ turns: TURNS, rates, ...figures }));
} finally {
  await bench.close();
  await stopTestPostgres();
}
