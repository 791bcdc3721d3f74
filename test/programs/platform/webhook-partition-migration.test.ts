import { expect } from 'chai';
import pg from 'pg';
import { migrate } from '../../../src/platform/db/migrations.ts';
import { openSession } from '../../../src/platform/db/pool.ts';
import { eventually } from '../../support/eventually.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const BEFORE = '0055_group_changes_of_devices.sql';
const ROWS = 20_000;

describe('the migration that makes partitions of webhook events', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase({ migrated: false });
  });
  after(() => database.drop());

  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
  async function apply(through?: string): Promise<void> {
    const [session, lockSession] = ['migrate', 'lock'].map((name) => openSession(database.ownerUrl, name));
    try {
      await migrate(session!, lockSession!, through === undefined ? {} : { through });
    } finally {
      await session?.destroy();
      await lockSession?.destroy();
    }
  }

  it('keeps the rows and their files, does not read them under a lock, and lets the former release go on', async () => {
    await apply(BEFORE);
    await owner(`insert into partners (id, name, slug, type, plan, status) values (gen_random_uuid(), 'P', 'p', 'msp', 'free', 'active');
      insert into organizations (id, partner_id, name, slug, type, status) select gen_random_uuid(), id, 'O', 'o', 'customer', 'active' from partners;
      insert into webhooks (id, partner_id, org_id, name, url, event_types, sealed_secret)
        select new_row_id(), partner_id, id, 'W', 'https://192.0.2.1', '{alert.raised}', 's' from organizations;
      insert into webhook_events (id, partner_id, org_id, type, data)
        select new_row_id(), partner_id, id, 'alert.raised', '{}' from organizations, generate_series(1, ${ROWS});
      insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id)
        select new_row_id(), e.partner_id, e.org_id, w.id, e.id from webhook_events e, webhooks w`);
    const filesOf = (suffix: string) =>
      owner<{ file: string }>(
        `select pg_relation_filepath(c) as file from unnest(array['webhook_events${suffix}', 'webhook_deliveries${suffix}',
          'webhook_events_pkey', 'webhook_deliveries_newest', 'webhook_deliveries_waiting']::regclass[]) c`,
      );
    const files = await filesOf('');
    const scansOf = async () => {
      await owner('select pg_stat_force_next_flush()');
      const [row] = await owner<{ n: number }>(
        `select sum(seq_scan)::int as n from pg_stat_user_tables where relname in ('webhook_deliveries', 'webhook_deliveries_former')`,
      );
      return row?.n;
    };

    // The former release records events, and adds their deliveries, all the time.
    const writer = new pg.Client({ connectionString: database.ownerUrl });
    await writer.connect();
    const over = new AbortController();
    let written = 0;
    const record = async () => {
      await writer.query(
        `select record_webhook_event('alert.raised', id, '{"new": true}') from organizations`,
      );
      await writer.query(`with fresh as (select id, partner_id, org_id from webhook_events where fanned_out_at is null and data ? 'new'
          order by id desc limit 1)
        insert into webhook_deliveries (id, partner_id, org_id, webhook_id, event_id)
        select new_row_id(), f.partner_id, f.org_id, w.id, f.id from fresh f, webhooks w`);
      written += 1;
    };
    const writing = (async () => {
      // On one connection, whose statements meet the tables of before and after.
      while (!over.signal.aborted) await record();
    })();
    try {
      await apply('0057_first_webhook_partitions_checked.sql');
      const scans = await scansOf();
      await apply();
      expect(await scansOf(), 'read while it was made a partition').to.equal(scans);
      const before = written;
      await eventually(
        () => written,
        (now) => now > before + 2,
      );
    } finally {
      over.abort();
      try {
        await writing;
      } finally {
        await writer.end();
      }
    }
    expect(written).to.be.greaterThan(5);
    expect(await filesOf('_former')).to.deep.equal(files);
    const [counts] = await owner<{ events: number; deliveries: number }>(
      `select (select count(*)::int from webhook_events) as events, (select count(*)::int from webhook_deliveries) as deliveries`,
    );
    expect(counts).to.deep.equal({ events: ROWS + written, deliveries: ROWS + written });
    const [own] = await owner<{ indexes: number }>(
      `select count(*)::int as indexes from pg_inherits where inhrelid = any(array['webhook_events_pkey',
        'webhook_deliveries_newest', 'webhook_deliveries_waiting']::regclass[])`,
    );
    expect(own, 'the indexes of the tables are not built again').to.deep.equal({ indexes: 3 });
  });
});
