import { expect } from 'chai';
import { DAY_MS } from '../../../../src/clock.ts';
import { endWebhookEvents } from '../../../../src/features/webhooks/end-webhook-events.job.ts';
import { fanOut } from '../../../../src/features/webhooks/webhook.queries.ts';
import { addComingWebhookPartitions } from '../../../../src/features/webhooks/webhook-partition.queries.ts';
import { ComingPartitions } from '../../../../src/platform/db/partitions.ts';
import { type Db, openPool } from '../../../../src/platform/db/pool.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const TABLES = ['webhook_events', 'webhook_deliveries'] as const;

describe('partitions of webhook events', () => {
  const testClock = useTestClock();
  // Without a server, whose dispatcher would send and whose job would end events.
  let database: TestDatabase;
  let db: Db;
  let partnerId: string;
  let orgId: string;
  let webhookId: string;

  const sql = <Row extends object = Record<string, unknown>>(text: string, values: unknown[] = []) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, text, values);
  const scope = (): TenantScope => ({
    scope: 'organization',
    userId: null,
    partnerId: null,
    orgAccess: 'listed',
    orgIds: [orgId],
  });
  const refusal = (work: Promise<unknown>) =>
    work.then(() => undefined).catch((e: { code: string }) => e.code);
  const partitions = async (table: string) =>
    (await sql<{ part: string }>('select part from partitions_of($1)', [table])).map(({ part }) => part);

  async function webhook(): Promise<string> {
    const id = newId();
    await sql(
      `insert into webhooks (id, partner_id, org_id, name, url, event_types, sealed_secret)
      values ($1, $2, $3, $4, 'https://192.0.2.1', '{alert.raised}', 's')`,
      [id, partnerId, orgId, id],
    );
    return id;
  }
  /** Events so many days ago, with a delivery each, as they would be there then. */
  async function happened(ages: readonly number[]): Promise<void> {
    await sql(
      `with added as (
        insert into webhook_events (id, partner_id, org_id, type, data, created_at, fanned_out_at)
        select overlay(first_row_id(at)::text placing right(gen_random_uuid()::text, 22) from 15)::uuid, $1, $2,
          'alert.raised', jsonb_build_object('age', age), at, at
        from unnest($4::int[]) age, lateral (select now() - make_interval(days => age) as at) t returning id, created_at
      )
      insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id, status, next_attempt_at, ended_at, created_at)
      select new_row_id(), $1, $2, $3, id, 'delivered', null, created_at, created_at from added`,
      [partnerId, orgId, webhookId, ages],
    );
  }
  /** How many days ago the events that are left happened, and those of the deliveries that are left. */
  const left = async () => {
    const [row] = await sql<{ events: number[]; deliveries: number[] }>(
      `select array(select (data ->> 'age')::int from webhook_events where data ? 'age' order by 1) as events,
        array(select (e.data ->> 'age')::int from webhook_deliveries d join webhook_events e on e.id = d.event_id
          where e.data ? 'age' order by 1) as deliveries`,
    );
    return row;
  };
  const orphans = async () =>
    (
      await sql(
        `select from webhook_deliveries d where not exists (select from webhook_events e where e.id = d.event_id)`,
      )
    ).length;
  const end = (now = Date.now()) => endWebhookEvents({ db, log: quietLog, tries: 1 }, now);

  afterEach(() => testClock.reset());
  before(async () => {
    database = await createTestDatabase();
    db = openPool(database.appUrl, { max: 4, name: 'test-webhook-partitions', acquireMs: 1000 });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  beforeEach(async () => {
    [partnerId, orgId] = [newId(), newId()];
    await sql('truncate webhooks, webhook_events, webhook_deliveries');
    await sql(`insert into partners (id, name, slug, status) values ($1::uuid, 'P', $1::text, 'active')`, [
      partnerId,
    ]);
    await sql(`insert into organizations (id, partner_id, name, slug) values ($1, $2, 'O', 'o')`, [
      orgId,
      partnerId,
    ]);
    webhookId = await webhook();
  });

  describe('of the former release', () => {
    it('are the first ones, for at least four weeks from the upgrade on', async () => {
      for (const table of TABLES) {
        const [first] = await sql<{ part: string; begins: Date | null; ends: Date }>(
          'select * from partitions_of($1)',
          [table],
        );
        expect(first).to.deep.include({ part: `${table}_former`, begins: null });
        expect((first?.ends.getTime() ?? 0) - Date.now()).to.be.within(27.9 * DAY_MS, 36 * DAY_MS);
      }
    });

    it('are out of reach for tenants, who reach their rows by way of the table', async () => {
      await happened([0]);
      for (const table of TABLES) {
        const seen = await withTenant(db, scope(), (tx) => tx(table).select('id'));
        expect(seen, table).to.have.length(1);
        for (const part of await partitions(table)) {
          const asTenant = withTenant(db, scope(), (tx) => tx.raw(`select from ${part}`));
          expect(await refusal(asTenant), part).to.equal('42501');
        }
      }
    });

    it('end row by row, with their deliveries', async () => {
      await happened([30, 15, 13, 0]);
      expect(await end()).to.deep.include({ removed: 2, dropped: 0, failed: 0 });
      expect(await left()).to.deep.equal({ events: [0, 13], deliveries: [0, 13] });
      expect(await orphans()).to.equal(0);
    });

    it('are written and emptied by its statements, which know no partitions', async () => {
      await happened([30, 0]);
      // Also an event behind the first partition, as it writes some weeks after it was started again.
      await sql(
        `insert into webhook_events (id, partner_id, org_id, type, data)
        select first_row_id(now() + interval '40 days'), $1, $2, 'alert.raised', '{"age": 99}'`,
        [partnerId, orgId],
      );
      await fanOut(db);
      await sql(
        `update webhook_events set created_at = now() - interval '15 days' where data ->> 'age' = '99'`,
      );
      expect(await left()).to.deep.equal({ events: [0, 30, 99], deliveries: [0, 30, 99] });
      await withSystem(db, 'test', (tx) =>
        tx.raw(`delete from webhook_events where (id) in (select old.id from webhook_events old
          where old.created_at < now() - make_interval(days => 14) limit 1000)`),
      );
      expect(await left()).to.deep.equal({ events: [0], deliveries: [0] });
      expect(await orphans()).to.equal(0);
    });
  });

  describe('that have a beginning and an end', () => {
    before(async () => {
      // As on a server that has had partitions for longer than events are kept.
      for (const table of TABLES) {
        await sql(`alter table ${table} detach partition ${table}_former`);
        await sql(
          `select add_partitions('${table}', now() - interval '50 days', now() + interval '42 days')`,
        );
      }
    });
    beforeEach(async () => {
      for (const table of TABLES) {
        await sql(
          `select add_partitions('${table}', now() - interval '50 days', now() + interval '42 days')`,
        );
      }
    });

    it('are dropped when the time of all their events is over, with no row removed by itself', async () => {
      await happened([45, 30, 22, 13, 0]);
      const ended = await end();
      expect(ended.dropped).to.be.greaterThan(5);
      expect(ended).to.deep.include({ removed: 0, failed: 0 });
      expect(await left()).to.deep.equal({ events: [0, 13], deliveries: [0, 13] });
      expect(await orphans()).to.equal(0);
    });

    it('keep each event for 14 days, and at most a week longer', async () => {
      const ages = Array.from({ length: 40 }, (_, age) => age);
      await happened(ages);
      // One who counts days from the end of a week, and one from its beginning.
      for (let day = 0; day < 7; day += 1) {
        await end(Date.now() + day * DAY_MS);
        const kept = (await left())?.events ?? [];
        expect(kept, `day ${day}`).to.include.members(ages.filter((age) => age + day < 14));
        expect(Math.max(...kept) + day, `day ${day}`).to.be.lessThan(21.1);
      }
    });

    it('are left for the next run if they are in use, with both events and deliveries, and nothing waits long', async () => {
      await happened([30, 0]);
      const round = await withSystem(db, 'test', async (tx) => {
        await tx.raw('select count(*) from webhook_deliveries');
        const ending = end();
        await withSystem(db, 'test', (other) =>
          other.raw(
            `insert into webhook_events (id, partner_id, org_id, type, data) values (new_row_id(), ?, ?, 'alert.raised', '{}')`,
            [partnerId, orgId],
          ),
        );
        return ending;
      });
      expect(round.failed).to.be.greaterThan(0);
      expect(await left()).to.deep.equal({ events: [0, 30], deliveries: [0, 30] });
      expect((await end()).failed).to.equal(0);
      expect(await left()).to.deep.equal({ events: [0], deliveries: [0] });
    });

    it('are dropped while events are written and sent, and none of these is lost', async () => {
      await happened([45, 38, 30]);
      const over = new AbortController();
      let written = 0;
      const writing = (async () => {
        while (!over.signal.aborted) {
          await withSystem(db, 'test', (tx) =>
            tx.raw(`select record_webhook_event('alert.raised', ?, '{"age": 0}')`, [orgId]),
          );
          written += 1;
          await fanOut(db);
        }
      })();
      try {
        const ended = await endWebhookEvents({ db, log: quietLog, tries: 20 }, Date.now());
        expect(ended.failed).to.equal(0);
      } finally {
        over.abort();
        await writing;
      }
      await fanOut(db);
      const rows = await left();
      expect(rows?.events).to.deep.equal(Array.from({ length: written }, () => 0));
      expect(rows?.deliveries).to.have.length(written);
    });

    it('are created two weeks ahead, as far as they are missing', async () => {
      for (const table of TABLES) {
        const coming = await sql<{ part: string }>(
          `select part from partitions_of($1) where begins is not null and ends > now()`,
          [table],
        );
        for (const { part } of coming) await sql(`drop table ${part}`);
      }
      await addComingWebhookPartitions(db);
      await addComingWebhookPartitions(db);
      for (const table of TABLES) {
        const [row] = await sql<{ begins: Date; ends: Date; parts: number }>(
          `select min(begins) as begins, max(ends) as ends, count(*)::int as parts from partitions_of($1) where ends > now()`,
          [table],
        );
        expect(row?.begins.getTime(), table).to.be.lessThan(Date.now());
        expect(row?.ends.getTime(), table).to.be.greaterThan(Date.now() + 14 * DAY_MS);
        expect(row?.parts, table).to.equal(3);
      }
    });

    it('are never dropped while their time lasts, nor by a tenant', async () => {
      for (const table of TABLES) {
        const [last] = await sql<{ ends: Date }>('select max(ends) as ends from partitions_of($1)', [table]);
        expect(await sql('select drop_partition($1, $2) as dropped', [table, last?.ends])).to.deep.equal([
          { dropped: false },
        ]);
        for (const call of [
          `drop_partition('${table}', now())`,
          `drop_partitions('${table}', now(), 1)`,
          `add_partitions('${table}', now(), now())`,
        ]) {
          const asTenant = withTenant(db, scope(), (tx) => tx.raw(`select ${call}`));
          expect(await refusal(asTenant), call).to.equal('42501');
        }
      }
    });

    it('are reached by way of the table alone, which shows no tenant what another has', async () => {
      await happened([0]);
      for (const table of TABLES) {
        for (const part of await partitions(table)) {
          for (const statement of [`select from ${part}`, `delete from ${part}`]) {
            const asTenant = withTenant(db, scope(), (tx) => tx.raw(statement));
            expect(await refusal(asTenant), statement).to.equal('42501');
          }
        }
        const seen = (orgIds: string[]) =>
          withTenant(db, { ...scope(), orgIds }, async (tx) => (await tx(table).select('id')).length);
        expect(await seen([orgId]), table).to.equal(1);
        expect(await seen([newId()]), table).to.equal(0);
      }
    });
  });

  it('are looked for again an hour after a success, and a minute after a failure', async () => {
    let tries = 0;
    let isInUse = true;
    const coming = new ComingPartitions({
      add: () => {
        tries += 1;
        return isInUse ? Promise.reject(new Error('in use')) : Promise.resolve();
      },
      log: quietLog,
      failure: 'not added',
      retryMs: 60_000,
    });
    const triesAfter = async (ms: number) => {
      testClock.jump(ms);
      await coming.ensure();
      return tries;
    };
    expect(await triesAfter(0)).to.equal(1);
    expect(await triesAfter(59_000)).to.equal(1);
    expect(await triesAfter(1000)).to.equal(2);
    isInUse = false;
    expect(await triesAfter(60_000)).to.equal(3);
    expect(await triesAfter(59 * 60_000)).to.equal(3);
    expect(await triesAfter(60_000)).to.equal(4);
  });

  it('lose the deliveries of a webhook that is deleted, and no others', async () => {
    const other = await webhook();
    await happened([40, 3, 0]);
    await sql(
      `update webhook_deliveries set webhook_id = $1
      where event_id = (select max(event_id::text)::uuid from webhook_deliveries)`,
      [other],
    );
    await withTenant(db, scope(), (tx) => tx('webhooks').where('id', webhookId).delete());
    expect(await left()).to.deep.include({ events: [0, 3, 40], deliveries: [0] });
  });

  it('have room for an event whose time no other partition has, until its days are over', async () => {
    await sql(
      `insert into webhook_events (id, partner_id, org_id, type, data)
      select first_row_id(now() + make_interval(days => age)), $1, $2, 'alert.raised', jsonb_build_object('age', age)
      from unnest('{300, 900}'::int[]) age`,
      [partnerId, orgId],
    );
    await fanOut(db);
    const [{ n } = { n: 0 }] = await sql<{ n: number }>(
      `select count(*)::int as n from webhook_events_rest e join webhook_deliveries_rest d on d.event_id = e.id`,
    );
    expect(n).to.equal(2);
    await sql(
      `update webhook_events set created_at = now() - interval '15 days' where data ->> 'age' = '300'`,
    );
    expect(await end()).to.deep.include({ removed: 1, failed: 0 });
    expect(await left()).to.deep.equal({ events: [900], deliveries: [900] });
    expect(await orphans()).to.equal(0);
  });

  it('are missing where such events lie until these are over, and are there for every other time', async () => {
    const [last] = await sql<{ part: string; ends: Date }>(
      `select part, ends from partitions_of('webhook_events') where ends is not null order by ends desc limit 1`,
    );
    await sql(`drop table ${last?.part}`);
    const dayBefore = "first_row_id($3::timestamptz - interval '1 day')";
    await sql(
      `insert into webhook_events (id, partner_id, org_id, type, data)
      values (${dayBefore}, $1, $2, 'alert.raised', '{"age": 77}')`,
      [partnerId, orgId, last?.ends],
    );
    const add = async () =>
      (
        await sql<{ added: number }>(
          `select add_partitions('webhook_events', $1::timestamptz - interval '1 day', $1::timestamptz + interval '8 days') as added`,
          [last?.ends],
        )
      )[0]?.added;
    expect(await add()).to.equal(2);
    expect(await partitions('webhook_events')).not.to.include(last?.part);
    await withSystem(db, 'test', (tx) =>
      tx.raw(`select record_webhook_event('alert.raised', ?, '{"age": 0}')`, [orgId]),
    );
    expect((await left())?.events).to.deep.equal([0, 77]);
    await sql(
      `update webhook_events set created_at = now() - interval '15 days' where data ->> 'age' = '77'`,
    );
    await end();
    expect(await add()).to.equal(1);
    expect(await partitions('webhook_events')).to.include(last?.part);
  });
});
