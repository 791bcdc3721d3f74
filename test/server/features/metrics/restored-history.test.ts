import { expect } from 'chai';
import { type LoadedTable, loadDatabase, withSnapshot } from '../../../../src/platform/db/dump.ts';
import { openSession } from '../../../../src/platform/db/pool.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

describe('a backup of Muster', () => {
  let source: TestDatabase;
  let target: TestDatabase;

  before(async () => {
    source = await createTestDatabase();
    target = await createTestDatabase();
  });
  after(async () => {
    await source.drop();
    await target.drop();
  });

  it('holds the metric history once, and its restore creates the partitions that it needs', async () => {
    await asOwner(
      source.ownerUrl,
      `select add_partitions('metric_minutes', now() - interval '12 days', now());
      insert into metric_minutes (device_id, org_id, begins_at, block)
      select '${newId()}', '${newId()}', date_trunc('hour', now()) - make_interval(days => n), '\\x010203'
      from unnest(array[0, 5, 11]) n;
      select add_partitions('metric_days', now() - interval '12 days', now());
      insert into metric_days (device_id, org_id, begins_at, block)
      select '${newId()}', '${newId()}', date_trunc('day', now()) - make_interval(days => n), '\\x020304'
      from unnest(array[2, 11]) n`,
    );
    const tables: LoadedTable[] = [];
    await withSnapshot(source.appUrl, async (snapshot) => {
      for (const { name, columns } of snapshot.tables) {
        const pieces: Buffer[] = [];
        let rows = 0;
        await snapshot.rows({ name, columns }, async (piece, count) => {
          pieces.push(piece);
          rows += count;
        });
        tables.push({
          name,
          columns,
          rows,
          pieces: (async function* () {
            yield* pieces;
          })(),
        });
      }
    });
    expect(tables.find(({ name }) => name === 'metric_minutes')?.rows).to.equal(3);
    expect(tables.filter(({ name }) => name.startsWith('metric_minutes'))).to.have.length(1);
    const owner = openSession(target.ownerUrl, 'restore');
    try {
      const loaded = (async function* () {
        yield* tables;
      })();
      await loadDatabase(owner, loaded, { changeRows: async () => {}, beforeCommit: async () => {} });
    } finally {
      await owner.destroy();
    }
    const rows = (sql: string) => Promise.all([source, target].map(({ ownerUrl }) => asOwner(ownerUrl, sql)));
    for (const [table, count] of [
      ['metric_minutes', 3],
      ['metric_days', 2],
    ] as const) {
      const [before, after] = await rows(
        `select device_id, begins_at, block from ${table} order by begins_at`,
      );
      expect(after, table).to.have.length(count);
      expect(after, table).to.deep.equal(before);
    }
  });
});
