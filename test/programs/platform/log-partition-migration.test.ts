import { expect } from 'chai';
import pg from 'pg';
import { migrate } from '../../../src/platform/db/migrations.ts';
import { openSession } from '../../../src/platform/db/pool.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

const BEFORE = '0049_dispatched_commands.sql';
const ROWS = 40_000;

describe('the migration that makes partitions of logs', () => {
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

  it('keeps the rows and their files, does not read them under a lock, and lets the former release write on', async () => {
    await apply(BEFORE);
    await owner(`insert into partners (id, name, slug, type, plan, status) values (gen_random_uuid(), 'P', 'p', 'msp', 'free', 'active');
      insert into organizations (id, partner_id, name, slug, type, status) select gen_random_uuid(), id, 'O', 'o', 'customer', 'active' from partners;
      insert into sites (id, org_id, name, timezone) select gen_random_uuid(), id, 'S', 'UTC' from organizations;
      insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
        select gen_random_uuid(), s.org_id, s.id, 'h', 'linux', '12', 'x64', '1.0.0', now() from sites s;
      insert into device_event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message, created_at)
        select gen_random_uuid(), id, org_id, now(), 'info', 'system', 's', n::text, 'm', now() - n * interval '2 minutes'
        from devices, generate_series(1, ${ROWS}) n;
      insert into agent_logs (id, device_id, org_id, "timestamp", level, component, message)
        select gen_random_uuid(), id, org_id, now(), 'info', 'c', 'm' from devices, generate_series(1, ${ROWS}) n`);
    const filesOf = () =>
      owner<{ file: string }>(
        `select pg_relation_filepath(c) as file from unnest(array['device_event_logs', 'agent_logs', 'device_event_logs_pkey',
          'device_event_logs_of_device', 'agent_logs_of_device']::regclass[]) c`,
      );
    const files = await filesOf();
    const scansOf = async () =>
      Number(
        (
          await owner<{ n: string }>(
            `select seq_scan as n from pg_stat_user_tables where relname = 'agent_logs'`,
          )
        )[0]?.n,
      );

    // The former release stores events all the time.
    const writer = new pg.Client({ connectionString: database.ownerUrl });
    await writer.connect();
    const over = new AbortController();
    let written = 0;
    const writing = (async () => {
      for (; !over.signal.aborted; written += 1) {
        await writer.query(
          `insert into device_event_logs (id, device_id, org_id, "timestamp", level, category, source, event_id, message)
          select gen_random_uuid(), id, org_id, now(), 'info', 'system', 'meanwhile', $1, 'm' from devices
          on conflict (device_id, source, event_id) do nothing`,
          [String(written)],
        );
      }
    })();
    try {
      await apply('0051_first_log_partitions_checked.sql');
      await owner('select pg_stat_force_next_flush()');
      const scans = await scansOf();
      await apply();
      await owner('select pg_stat_force_next_flush()');
      expect(await scansOf(), 'read while it was made a partition').to.equal(scans);
    } finally {
      over.abort();
      try {
        await writing;
      } finally {
        await writer.end();
      }
    }
    expect(written).to.be.greaterThan(20);
    expect(await filesOf()).to.deep.equal(files);
    const [counts] = await owner<{ events: number; lines: number }>(
      `select (select count(*)::int from event_logs) as events, (select count(*)::int from diagnostic_logs) as lines`,
    );
    expect(counts).to.deep.equal({ events: ROWS + written, lines: ROWS });
    const [own] = await owner<{ indexes: number }>(
      `select count(*)::int as indexes from pg_inherits where inhrelid = any(array['device_event_logs_of_device',
        'agent_logs_of_device']::regclass[])`,
    );
    expect(own, 'the indexes of the tables are not built again').to.deep.equal({ indexes: 2 });
  });
});
