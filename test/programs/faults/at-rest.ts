import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runProgram } from '../../support/program.ts';
import { asOwner } from '../../support/test-postgres.ts';
import type { Cluster } from './cluster.ts';
import { SERVERS } from './schedule.ts';
import type { LedgerEntry, Level, RunRecord } from './violations.ts';

/** What is read when nothing happens any more: the ledger, the audit trail, memory and connections. */

const FINAL = ['succeeded', 'failed', 'cancelled', 'timed_out', 'expired'];

export async function openCommands(ownerUrl: string): Promise<string[]> {
  const rows = await asOwner<{ id: string }>(
    ownerUrl,
    'select id from commands where not (status = any($1::text[]))',
    [FINAL],
  );
  return rows.map(({ id }) => id);
}

export async function ledger(ownerUrl: string): Promise<LedgerEntry[]> {
  const rows = await asOwner<{ id: string; effect_id: string; status: string; ends: string[] }>(
    ownerUrl,
    `select id, payload -> 'parameters' ->> 'ID' as effect_id, status, array(
        select to_status from command_transitions
        where command_id = commands.id and to_status = any($1::text[]) order by seq
      ) as ends
      from commands order by created_at`,
    [FINAL],
  );
  return rows.map(({ effect_id, ...row }) => ({ ...row, effectId: effect_id }));
}

/** The trail once everything is sealed, checked by the program that operators check it with. */
export async function auditTrail(
  ownerUrl: string,
  appUrl: string,
  folder: string,
  withinMs: number,
): Promise<RunRecord['audit']> {
  const faults: string[] = [];
  const until = performance.now() + withinMs;
  const unsealed = async () =>
    (await asOwner<{ count: number }>(ownerUrl, 'select count(*)::int as count from audit_outbox'))[0]
      ?.count ?? 0;
  while ((await unsealed()) > 0 && performance.now() < until) await delay(250);
  const left = await unsealed();
  if (left > 0) faults.push(`${left} entries are not sealed`);
  const rows = await asOwner<{ id: string }>(
    ownerUrl,
    `select details ->> 'commandId' as id from audit_logs where action = 'device.command'`,
  );
  const program = runProgram('src/cli/muster.ts', ['audit', 'verify', '--json'], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      DATABASE_URL: ownerUrl,
      DATABASE_URL_APP: appUrl,
      JWT_SECRET: 'a-secret-that-only-tests-sign-with',
      SECRET_ENCRYPTION_KEY: 'a-key-that-only-tests-seal-secrets-with',
      DATA_DIR: path.join(folder, 'verify'),
    },
  });
  if ((await program.ended) !== 0) faults.push(`muster audit verify: ${program.output()}`);
  return { faults, commandIds: rows.map(({ id }) => id) };
}

export type Levels = Map<string, number>;

const MEMORY = /^process_resident_memory_bytes (\d+)/m;
/** A process that has just been started has read little: one that has worked may have that much more. */
const MEMORY_GROWTH_MB = 150;
const CONNECTIONS_GROWTH = 20;

export async function levelsNow(cluster: Cluster, ownerUrl: string): Promise<Levels> {
  const levels: Levels = new Map();
  for (const name of SERVERS) {
    // A server that is not there has no memory that could be compared, which is a violation.
    const metrics = await cluster
      .server(name)
      .metrics()
      .catch(() => '');
    const bytes = Number(MEMORY.exec(metrics)?.[1] ?? Number.NaN);
    levels.set(`memory of ${name}, MB`, Math.round(bytes / 1e6));
  }
  const rows = await asOwner<{ count: number }>(
    ownerUrl,
    `select count(*)::int as count from pg_stat_activity where datname = current_database()`,
  );
  levels.set('database connections', rows[0]?.count ?? 0);
  return levels;
}

export const levelsBetween = (before: Levels, after: Levels): Level[] =>
  [...after].map(([what, now]) => {
    const then = before.get(what) ?? 0;
    const growth = what.startsWith('memory') ? MEMORY_GROWTH_MB : CONNECTIONS_GROWTH * SERVERS.length;
    return { what, before: then, after: now, most: then + growth };
  });
