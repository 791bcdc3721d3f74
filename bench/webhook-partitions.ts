import {
  dropWebhookPartition,
  endedWebhookPartitions,
  PARTITIONED,
} from '../src/features/webhooks/webhook-partition.queries.ts';
import { EVENT_DAYS } from '../src/features/webhooks/webhook.model.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { runPrepared, type Tx, withSystem, withTenant } from '../src/platform/db/transaction.ts';
import { newId } from '../src/platform/ids.ts';
import { RowPruner } from '../src/platform/jobs/row-pruner.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:webhook-partitions` compares the events of webhooks and their deliveries in partitions by week with the
 * same rows in two tables as they were before (their keys, indexes and cascade), in one run and in turn: recording events,
 * adding their deliveries, recording attempts, the newest of the log, and the end of what is too old while events are
 * recorded. `BENCH_ROWS` (300,000) events are spread over 28 days and 20 webhooks.
 */

const ROWS = Number(process.env['BENCH_ROWS'] ?? 300_000);
const DAYS = 28;
const WEBHOOKS = 20;
const ROUNDS = 120;
const WARM_UP = 20;
const AT_ONCE = 50;

const database = await createTestDatabase({ durable: true });
const db = openPool(database.appUrl, { max: 2, name: 'bench-webhooks' });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
const [partnerId, orgId] = [newId(), newId()];
const short = (value: number) => Math.round(value * 100) / 100;
const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0;

type Way = 'plain' | 'partitions';
const EVENTS = { plain: 'plain_events', partitions: 'webhook_events' } as const;
const DELIVERIES = { plain: 'plain_deliveries', partitions: 'webhook_deliveries' } as const;

/** Takes the former tables out of the partitions, with the keys that they had. */
async function makeTables(): Promise<void> {
  await owner(`alter table webhook_events detach partition webhook_events_former;
    alter table webhook_deliveries detach partition webhook_deliveries_former;
    drop trigger webhook_events_delete_deliveries on webhook_events_former;
    drop index webhook_deliveries_former_key;
    alter table webhook_events_former rename to plain_events;
    alter table webhook_deliveries_former rename to plain_deliveries;
    alter table plain_deliveries
      add foreign key (partner_id, webhook_id) references webhooks (partner_id, id) on delete cascade,
      add foreign key (org_id, webhook_id) references webhooks (org_id, id) on delete cascade,
      add foreign key (partner_id, event_id) references plain_events (partner_id, id) on delete cascade;
    create policy tenant on plain_events to svc_app using (org_id = any((select app_org_ids())::uuid[]));
    create policy tenant on plain_deliveries to svc_app using (org_id = any((select app_org_ids())::uuid[]));
    grant select on plain_events, plain_deliveries to svc_app`);
  for (const table of PARTITIONED) {
    await owner(
      `select add_partitions('${table}', now() - interval '${DAYS + 1} days', now() + interval '14 days')`,
    );
  }
}

async function fill(): Promise<void> {
  await owner(`insert into partners (id, name, slug, status) values ($1::uuid, 'P', $1::text, 'active')`, [
    partnerId,
  ]);
  await owner(`insert into organizations (id, partner_id, name, slug) values ($1, $2, 'O', 'o')`, [
    orgId,
    partnerId,
  ]);
  await owner(
    `insert into webhooks (id, partner_id, org_id, name, url, event_types, sealed_secret, enabled)
    select new_row_id(), $1, $2, 'W ' || n, 'https://192.0.2.1', '{alert.raised}', 's', false from generate_series(1, ${WEBHOOKS}) n`,
    [partnerId, orgId],
  );
  await owner(
    `insert into webhook_events (id, partner_id, org_id, type, data, created_at, fanned_out_at)
    select overlay(first_row_id(at)::text placing right(gen_random_uuid()::text, 22) from 15)::uuid, $1, $2, 'alert.raised',
      jsonb_build_object('text', repeat('The disk of host ' || n || ' is nearly full. ', 8)), at, at
    from generate_series(1, ${ROWS}) n
    cross join lateral (select now() - ${DAYS} * interval '1 day' * (1 - n / ${ROWS}.0) as at) t`,
    [partnerId, orgId],
  );
  await owner(
    `with hooks as (select id, row_number() over (order by id) - 1 as no from webhooks)
    insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id, status, next_attempt_at, ended_at,
      response_status, response_excerpt, created_at)
    select overlay(first_row_id(e.created_at)::text placing right(gen_random_uuid()::text, 22) from 15)::uuid, e.partner_id,
      e.org_id, h.id, e.id, 'delivered', null, e.created_at, 200, 'ok', e.created_at
    from (select *, row_number() over (order by id) as no from webhook_events) e join hooks h on h.no = e.no % ${WEBHOOKS}
    order by e.id`,
  );
  await owner('insert into plain_events select * from webhook_events order by id');
  await owner('insert into plain_deliveries select * from webhook_deliveries order by event_id');
  for (const table of [...Object.values(EVENTS), ...Object.values(DELIVERIES)]) {
    await owner(`vacuum analyze ${table}`);
  }
  await owner('checkpoint');
}

const made: Record<Way, { id: string; eventId: string }[]> = { plain: [], partitions: [] };

/** As the trigger of a change records an event, in the transaction of the change. */
const record = (way: Way) => async (tx: Tx) => {
  const statement = {
    name: `bench-record-${way}`,
    text: `insert into ${EVENTS[way]} (id, partner_id, org_id, type, data) values (new_row_id(), $1, $2, 'alert.raised', '{"a": 1}')`,
  };
  for (let n = 0; n < AT_ONCE; n += 1) await runPrepared(tx, statement, [partnerId, orgId]);
};
/** The statements of `fanOut` for the events that wait. */
const divide = (way: Way) => async (tx: Tx) => {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select id from ${EVENTS[way]} where fanned_out_at is null order by id limit 500 for update skip locked`,
  );
  const ids = rows.map(({ id }) => id);
  const { rows: added } = await tx.raw<{ rows: { id: string; event_id: string }[] }>(
    `with wanted as (
      select e.id as event_id, w.id as webhook_id, w.partner_id, w.org_id from ${EVENTS[way]} e
      join (select * from webhooks order by id limit 1) w on w.partner_id = e.partner_id where e.id = any(?::uuid[])
    )
    insert into ${DELIVERIES[way]} (id, partner_id, org_id, webhook_id, event_id)
    select new_row_id(), partner_id, org_id, webhook_id, event_id from wanted order by event_id returning id, event_id`,
    [ids],
  );
  await tx.raw(`update ${EVENTS[way]} set fanned_out_at = now() where id = any(?::uuid[])`, [ids]);
  made[way].push(...added.map(({ id, event_id: eventId }) => ({ id, eventId })));
};
/** As `recordDeliveryAttempt` ends them. */
const attempt = (way: Way) => async (tx: Tx) => {
  for (const { id, eventId } of made[way].splice(0)) {
    await tx(DELIVERIES[way])
      .where({ id, status: 'pending', ...(way === 'plain' ? {} : { event_id: eventId }) })
      .update({ status: 'delivered', attempts: 1, next_attempt_at: null, ended_at: tx.fn.now() });
  }
};
const read = (way: Way) => (tx: Tx) =>
  tx.raw(
    `select d.*, e.type, e.data from ${DELIVERIES[way]} d join ${EVENTS[way]} e on e.partner_id = d.partner_id and e.id = d.event_id
    where d.webhook_id = (select id from webhooks order by id limit 1) and (e.org_id is null or e.org_id = ?)
    order by d.created_at desc, d.id desc limit 50`,
    [orgId],
  );

async function compare(): Promise<Record<string, string>> {
  const steps = {
    [`${AT_ONCE} events recorded`]: record,
    'their deliveries added': divide,
    'their attempts recorded': attempt,
  };
  const scope = {
    scope: 'organization',
    userId: null,
    partnerId: null,
    orgAccess: 'listed',
    orgIds: [orgId],
  } as const;
  const times = new Map<string, Record<Way, number[]>>();
  const note = async (name: string, way: Way, round: number, work: () => Promise<unknown>) => {
    const since = performance.now();
    await work();
    const of = times.get(name) ?? { plain: [], partitions: [] };
    times.set(name, of);
    if (round >= WARM_UP) of[way].push(performance.now() - since);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of round % 2 === 0
      ? (['plain', 'partitions'] as const)
      : (['partitions', 'plain'] as const)) {
      for (const [name, step] of Object.entries(steps)) {
        await note(name, way, round, () => withSystem(db, 'bench', (tx) => step(way)(tx)));
      }
      await note('the newest 50 of a webhook, as a tenant', way, round, () =>
        withTenant(db, scope, async (tx) => void (await read(way)(tx))),
      );
    }
  }
  return Object.fromEntries(
    [...times].map(([name, { plain, partitions }]) => {
      const p50 = [quantile(plain, 0.5), quantile(partitions, 0.5)] as const;
      return [
        `${name}: p50 ms plain, in partitions, ratio`,
        `${short(p50[0])} / ${short(p50[1])} / ${short(p50[1] / p50[0])}`,
      ];
    }),
  );
}

/** Ends what is too old both ways, while events are recorded. */
async function ends(): Promise<Record<string, string>> {
  const over = new AbortController();
  const waits: number[] = [];
  const writing = (async () => {
    while (!over.signal.aborted) {
      const since = performance.now();
      await withSystem(db, 'bench', (tx) => record('partitions')(tx));
      waits.push(performance.now() - since);
    }
  })();
  const walAt = async () =>
    (await owner<{ at: string }>('select pg_current_wal_insert_lsn()::text as at'))[0]?.at ?? '0/0';
  const walSince = async (at: string) =>
    (
      await owner<{ bytes: number }>(
        'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8 as bytes',
        [at],
      )
    )[0]?.bytes ?? 0;
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const alone = quantile(waits.splice(0), 1);
  const until = new Date(Date.now() - EVENT_DAYS * 86_400_000);
  const partitions = await endedWebhookPartitions(db, 'webhook_events', until);
  const last = partitions.at(-1)?.ends ?? until;
  let at = await walAt();
  let since = performance.now();
  for (const table of PARTITIONED) {
    for (const partition of partitions) await dropWebhookPartition(db, table, partition);
  }
  const dropMs = performance.now() - since;
  const whileDropping = quantile(waits.splice(0), 1);
  over.abort();
  await writing;
  const dropWal = await walSince(at);
  await owner('checkpoint');
  at = await walAt();
  since = performance.now();
  const rule = {
    table: 'plain_events',
    key: ['id'],
    days: EVENT_DAYS,
    isOver: () => `old.created_at < '${last.toISOString()}'`,
    atOnce: 1000,
  };
  const round = await new RowPruner({ db, rules: [rule], log: quietLog, pauseMs: 0 }).prune();
  const removeMs = performance.now() - since;
  return {
    [`${partitions.length} weeks dropped`]: `${Math.round(dropMs)} ms, ${short(dropWal / 1e6)} MB of WAL with that of the writes meanwhile`,
    'longest transaction of writes before, and while dropping: ms': `${short(alone)} / ${short(whileDropping)}`,
    [`${round.removed['plain_events']} events removed with their deliveries`]: `${Math.round(removeMs)} ms, ${short((await walSince(at)) / 1e6)} MB of WAL`,
  };
}

try {
  await makeTables();
  await owner('grant delete on plain_events to svc_system');
  await fill();
  const figures = { events: String(ROWS), ...(await compare()), ...(await ends()) };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  await db.destroy();
  await database.drop();
  await stopTestPostgres();
}
