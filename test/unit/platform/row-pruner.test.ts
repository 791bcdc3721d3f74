import { expect } from 'chai';
import type { Db } from '../../../src/platform/db/pool.ts';
import {
  batchSize,
  bounded,
  byRules,
  cascade,
  expiredRows,
  overdueOrganizations,
  overdueRows,
  removeOverdueRows,
  type RetentionRule,
} from '../../../src/platform/db/retention-rule.ts';
import { RowPruner } from '../../../src/platform/jobs/row-pruner.ts';
import { recordingLog } from '../../support/quiet-log.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const OF_ALL: RetentionRule = { ...expiredRows('links', 'token', 2), atOnce: 2 };
const BY_ORGANIZATION: RetentionRule = {
  table: 'logs',
  key: ['id', 'at'],
  days: 30,
  isOver: (days) => `old.at < now() - make_interval(days => ${days})`,
  organization: {},
  atOnce: 2,
};
const oneLine = (sql: string) => sql.replaceAll(/\s+/g, ' ');

describe('the removal of expired rows', () => {
  const testClock = useTestClock({ isRunning: false });
  /** How many expired rows there are of each table, or of each organization. */
  let rows: Record<string, number>;
  /** What is removed, in order, a transaction each. */
  let removals: string[];
  let days: Record<string, number>;
  /** The tables that are locked, in order. */
  let locked: string[];
  let failing: Set<string>;
  let onRemoval: () => void;
  let lines: Record<string, unknown>[];

  /** A database that knows the statements of the pruner. */
  function scriptedDb(rules: readonly RetentionRule[]): Db {
    const raw = async (sql: string, values: readonly string[] = []) => {
      if (sql.startsWith('select pg_advisory_xact_lock')) {
        locked.push(values[0]!);
        return { rows: [] };
      }
      const rule = rules.find(({ table }) => sql.includes(table));
      if (rule === undefined) throw new Error(`An unknown statement: ${sql}`);
      if (sql.startsWith('select o.id')) {
        if (failing.has(rule.table)) throw new Error('the organizations cannot be read');
        return { rows: Object.entries(days).map(([id, kept]) => ({ id, days: kept })) };
      }
      const whose = values[0] ?? rule.table;
      if (failing.has(whose)) throw new Error('this row is damaged');
      expect(sql).to.equal(removeOverdueRows(rule, days[whose] ?? rule.days));
      const rowCount = Math.min(rows[whose] ?? 0, batchSize(rule));
      rows[whose] = (rows[whose] ?? 0) - rowCount;
      removals.push(`${rowCount} of ${whose}`);
      onRemoval();
      return { rowCount };
    };
    return { transaction: async (work: (tx: object) => unknown) => work({ raw }) } as unknown as Db;
  }
  const prune = (rules: readonly RetentionRule[], signal?: AbortSignal) => {
    const { log, lines: written } = recordingLog();
    lines = written;
    return new RowPruner({ db: scriptedDb(rules), rules, log }).prune(signal);
  };
  /** Lets the pauses between batches pass. */
  async function pruned(rules: readonly RetentionRule[], signal?: AbortSignal) {
    const round = prune(rules, signal);
    const progress = { isDone: false };
    const noteEnd = () => void (progress.isDone = true);
    round.then(noteEnd, noteEnd);
    for (let turn = 0; turn < 100 && !progress.isDone; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await testClock.advance(50);
    }
    return round;
  }

  beforeEach(() => {
    rows = {};
    removals = [];
    days = {};
    locked = [];
    failing = new Set();
    onRemoval = () => {};
  });

  it('goes on batch by batch until one is not full, table by table', async () => {
    rows = { links: 4, logs: 0, a: 1 };
    days = { a: 30 };
    expect(await pruned([OF_ALL, BY_ORGANIZATION])).to.deep.equal({
      removed: { links: 4, logs: 1 },
      failed: 0,
    });
    expect(removals).to.deep.equal(['2 of links', '2 of links', '0 of links', '1 of a']);
  });

  it('pauses for 50 ms after each full batch, so that other work gets at the rows', async () => {
    rows = { links: 3 };
    const round = prune([OF_ALL]);
    const settled = () => new Promise((resolve) => setImmediate(resolve));
    await settled();
    await testClock.advance(49);
    await settled();
    expect(removals).to.deep.equal(['2 of links']);
    await testClock.advance(1);
    await round;
    expect(removals).to.deep.equal(['2 of links', '1 of links']);
  });

  it('lets organizations take turns, each by its own days', async () => {
    rows = { a: 5, b: 1, c: 3 };
    days = { a: 7, b: 30, c: 365 };
    expect((await pruned([BY_ORGANIZATION])).removed).to.deep.equal({ logs: 9 });
    expect(removals).to.deep.equal(['2 of a', '1 of b', '2 of c', '2 of a', '1 of c', '1 of a']);
  });

  it('leaves an organization that fails for the next round, and goes on with the others', async () => {
    rows = { a: 3, b: 3, c: 3 };
    days = { a: 7, b: 7, c: 7 };
    failing.add('b');
    expect(await pruned([BY_ORGANIZATION, OF_ALL])).to.deep.equal({
      removed: { logs: 6, links: 0 },
      failed: 1,
    });
    expect(removals).to.deep.equal(['2 of a', '2 of c', '1 of a', '1 of c', '0 of links']);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({ event: 'database.rows_not_pruned', table: 'logs', orgId: 'b' });
  });

  it('goes on with the next table if the organizations of one cannot be found', async () => {
    failing.add('logs');
    rows = { links: 1 };
    expect(await pruned([BY_ORGANIZATION, OF_ALL])).to.deep.equal({ removed: { links: 1 }, failed: 1 });
    expect(lines[0]).to.include({ event: 'database.rows_not_pruned', table: 'logs' });
  });

  it('locks the table in each transaction, so that two servers do not remove the same rows', async () => {
    rows = { links: 3 };
    expect(await pruned([OF_ALL])).to.deep.equal({ removed: { links: 3 }, failed: 0 });
    expect(removals).to.deep.equal(['2 of links', '1 of links']);
    expect(locked).to.deep.equal(['links', 'links']);
  });

  it('stops between two batches when the server stops', async () => {
    rows = { links: 9, a: 9, b: 9 };
    days = { a: 7, b: 7 };
    const stopping = new AbortController();
    onRemoval = () => removals.length === 3 && stopping.abort();
    expect((await pruned([BY_ORGANIZATION, OF_ALL], stopping.signal)).removed).to.deep.equal({ logs: 6 });
    expect(removals).to.deep.equal(['2 of a', '2 of b', '2 of a']);
    removals = [];
    failing.add('logs');
    expect(await pruned([OF_ALL, BY_ORGANIZATION], AbortSignal.abort())).to.deep.equal({
      removed: {},
      failed: 0,
    });
  });
});

describe('a rule of retention', () => {
  it('removes links and challenges from the day after they have expired', () => {
    const rule = expiredRows('links', 'token');
    expect([rule.key, rule.days, batchSize(rule)]).to.deep.equal([['token'], 1, 5000]);
    expect(oneLine(removeOverdueRows(rule, rule.days))).to.equal(
      'delete from links where (token) in (select old.token from links old where old.expires_at < now() - make_interval(days => 1) limit 5000)',
    );
  });

  it('finds only rows of one organization if it goes by organization', () => {
    expect(oneLine(overdueRows(BY_ORGANIZATION, 7))).to.equal(
      'select old.id, old.at from logs old where old.org_id = ? and old.at < now() - make_interval(days => 7) limit 2',
    );
    expect(oneLine(removeOverdueRows(BY_ORGANIZATION, 7))).to.match(
      /^delete from logs where \(id, at\) in \(select /,
    );
    const joined: RetentionRule = {
      ...BY_ORGANIZATION,
      from: 'devices d join logs old on old.device_id = d.id',
      organization: { column: 'd.org_id' },
    };
    expect(oneLine(overdueRows(joined, 7))).to.contain(
      'from devices d join logs old on old.device_id = d.id where d.org_id = ? and old.at <',
    );
  });

  it('looks for organizations with expired rows, by the days that each has chosen or by its own', () => {
    expect(oneLine(overdueOrganizations(BY_ORGANIZATION))).to.equal(
      'select o.id, kept.days from organizations o cross join lateral (select coalesce(null, 30)::int as days) kept ' +
        'where exists (select from logs old where old.org_id = o.id and old.at < now() - make_interval(days => kept.days)) order by o.id',
    );
    const chosen = { chosenDays: 'o.log_days', candidate: 'o.has_devices' };
    expect(oneLine(overdueOrganizations({ ...BY_ORGANIZATION, organization: chosen }))).to.equal(
      'select o.id, kept.days from organizations o cross join lateral (select coalesce(o.log_days, 30)::int as days) kept ' +
        'where o.has_devices order by o.id',
    );
  });

  it('is declared for a table as one of three ends', () => {
    expect([
      cascade('parts', 'wholes'),
      bounded('sizes', 'There are three.'),
      ...byRules([OF_ALL]),
    ]).to.deep.equal([
      { table: 'parts', ends: 'cascade', with: 'wholes' },
      { table: 'sizes', ends: 'bounded', because: 'There are three.' },
      { table: 'links', ends: 'retention', rule: OF_ALL },
    ]);
  });
});
