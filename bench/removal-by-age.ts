import { commandRetention } from '../src/features/commands/command.model.ts';
import { notificationRetention } from '../src/features/notifications/notification.model.ts';
import { webhookRetention } from '../src/features/webhooks/webhook.model.ts';
import type { RetentionRule } from '../src/platform/db/retention-rule.ts';
import { RowPruner } from '../src/platform/jobs/row-pruner.ts';
import { buildTenant } from '../test/support/factories.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:removal-by-age` says what the end of rows by age costs in tables that grow with time: the removal row by
 * row with its vacuum, in the batches of the daily job, beside dropping tables with the same rows and indexes. `ROWS`
 * (50,000) rows of each table are old, and as many stay.
 */

const ROWS = Number(process.env['ROWS'] ?? 50_000);
const DEVICES = 200;

const database = await createTestDatabase({ durable: true });
const app = await createTestApp({ database });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);

interface Cost {
  ms: number;
  wal: number;
}
async function measured(work: () => Promise<unknown>): Promise<Cost> {
  await owner('checkpoint');
  const [{ at } = { at: '0/0' }] = await owner<{ at: string }>(
    'select pg_current_wal_insert_lsn()::text as at',
  );
  const since = performance.now();
  await work();
  const ms = performance.now() - since;
  const [{ wal } = { wal: 0 }] = await owner<{ wal: number }>(
    'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8 as wal',
    [at],
  );
  return { ms, wal };
}
const shown = ({ ms, wal }: Cost) => `${Math.round(ms)} ms, ${(wal / 1e6).toFixed(1)} MB of WAL`;

/** Tables whose rows end together, the one that the rule names first. */
interface Grown {
  rule: RetentionRule | undefined;
  tables: string[];
  /** Fills them with `ROWS` rows, so many days old. */
  fill: (daysAgo: number) => Promise<void>;
}

async function compared({ rule, tables, fill }: Grown): Promise<Record<string, string | number>> {
  if (rule === undefined) throw new Error(`${tables[0]} has no rule`);
  await fill(rule.days + 30);
  for (const table of tables) {
    await owner(`create table old_${table} (like ${table} including all)`);
    const [{ names } = { names: '' }] = await owner<{ names: string }>(
      `select string_agg(quote_ident(attname), ', ' order by attnum) as names from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and attgenerated = '' and not attisdropped`,
      [table],
    );
    await owner(`insert into old_${table} (${names}) select ${names} from ${table}`);
  }
  await fill(1);
  const size = async () => {
    let sum = 0;
    for (const table of tables) {
      const [row] = await owner<{ bytes: number }>('select pg_total_relation_size($1)::float8 as bytes', [
        table,
      ]);
      sum += row?.bytes ?? 0;
    }
    return sum;
  };
  for (const table of tables) await owner(`vacuum analyze ${table}`);
  const before = await size();
  const pruner = new RowPruner({ db: app.server.database.jobPool, rules: [rule], log: quietLog, pauseMs: 0 });
  let round: Awaited<ReturnType<RowPruner['prune']>> | undefined;
  const removed = await measured(async () => {
    round = await pruner.prune();
  });
  if (round?.removed[rule.table] !== ROWS || round.failed > 0) throw new Error(JSON.stringify(round));
  const vacuumed = await measured(async () => {
    for (const table of tables) await owner(`vacuum ${table}`);
  });
  const dropped = await measured(() =>
    owner(`drop table ${tables.map((table) => `old_${table}`).join(', ')}`),
  );
  const sum = removed.ms + vacuumed.ms;
  return {
    'bytes a row with what goes with it': Math.round(before / ROWS / 2),
    removed: shown(removed),
    vacuumed: shown(vacuumed),
    dropped: shown(dropped),
    'µs a row': Math.round((sum * 1000) / ROWS),
    'WAL bytes a row': Math.round((removed.wal + vacuumed.wal) / ROWS),
    'size after ÷ before': Number(((await size()) / before).toFixed(2)),
  };
}

try {
  const { orgId, partnerId } = await buildTenant(app);
  await owner(
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    select new_row_id(), $1::uuid, (select id from sites where org_id = $1::uuid limit 1), 'bench-' || n, 'linux', '12',
      'x64', '1.0.0', now() - interval '400 days' from generate_series(1, ${DEVICES}) n`,
    [orgId],
  );
  const [{ id: webhookId } = { id: '' }] = await owner<{ id: string }>('select new_row_id() as id');
  await owner(
    `insert into webhooks (id, partner_id, org_id, name, url, event_types, enabled, sealed_secret)
    values ($1, $2, $3, 'bench', 'https://127.0.0.1/', '{alert.raised}', false, 'x')`,
    [webhookId, partnerId, orgId],
  );

  const [removalOfNotifications] = notificationRetention;
  const grown: Grown[] = [
    {
      rule: commandRetention[0],
      tables: ['commands', 'command_transitions'],
      async fill(daysAgo) {
        await owner(
          `with added as (
            insert into commands (id, org_id, device_id, type, payload, status, timeout_seconds, output, created_at,
              expires_at, started_at, finished_at)
            select new_row_id(), $1, d.id, 'script.run', jsonb_build_object('content', repeat('echo ' || n || '; ', 20)),
              'succeeded', 300, jsonb_build_object('exitCode', 0, 'stdout', repeat('line ' || n || chr(10), 60)), at, at, at, at
            from generate_series(1, ${ROWS / DEVICES}) n
            cross join (select id from devices where hostname like 'bench-%') d
            cross join lateral (select now() - make_interval(days => $2) as at) t returning id, org_id
          )
          insert into command_transitions (command_id, org_id, from_status, to_status, attempt, at)
          select added.id, added.org_id, f, t, 1, now() from added
          cross join (values ('queued', 'dispatched'), ('dispatched', 'accepted'), ('accepted', 'running'), ('running', 'succeeded')) s (f, t)`,
          [orgId, daysAgo],
        );
      },
    },
    {
      rule: removalOfNotifications,
      tables: ['notifications'],
      async fill(daysAgo) {
        await owner(
          `insert into notifications (id, partner_id, org_id, reason, status, recipient, title, severity, alert_count, content,
            created_at)
          select new_row_id(), $1, $2, 'raised', 'suppressed', 'ops@example.com', 'Disk nearly full on host ' || n, 'high', 1,
            jsonb_build_object('text', repeat('The disk of host ' || n || ' is nearly full. ', 8)), now() - make_interval(days => $3)
          from generate_series(1, ${ROWS}) n`,
          [partnerId, orgId, daysAgo],
        );
      },
    },
    {
      rule: webhookRetention[0],
      tables: ['webhook_events_former', 'webhook_deliveries_former'],
      async fill(daysAgo) {
        await owner(
          `with added as (
            insert into webhook_events (id, partner_id, org_id, type, data, created_at, fanned_out_at)
            select new_row_id(), $1, $2, 'alert.raised', jsonb_build_object('text', repeat('The disk of host ' || n || ' is nearly full. ', 8)),
              now() - make_interval(days => $4), now()
            from generate_series(1, ${ROWS}) n returning id, created_at
          )
          insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id, status, next_attempt_at, ended_at,
            response_status, response_excerpt, created_at)
          select new_row_id(), $1, $2, $3, id, 'delivered', null, now(), 200, 'ok', created_at from added`,
          [partnerId, orgId, webhookId, daysAgo],
        );
      },
    },
  ];
  const figures: Record<string, Record<string, string | number>> = {};
  for (const each of grown) figures[each.tables.join(' and ')] = await compared(each);
  console.log(figures);
} finally {
  await app.close();
  await database.drop();
  await stopTestPostgres();
}
