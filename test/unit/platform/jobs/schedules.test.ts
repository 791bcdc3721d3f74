import { expect } from 'chai';
import type { Tx } from '../../../../src/platform/db/transaction.ts';
import { retryDelayMs } from '../../../../src/platform/jobs/definition.ts';
import type { JobStore } from '../../../../src/platform/jobs/job.queries.ts';
import { Schedules } from '../../../../src/platform/jobs/schedules.ts';

const NOW = new Date('2026-06-10T12:00:30.000Z');
const DUE = new Date('2026-06-10T12:00:00.000Z');

describe('recurring jobs', () => {
  let due: { name: string; dueAt: Date }[];
  let statements: [string, readonly unknown[] | undefined][];
  let transactions: number;
  let added: [string, unknown][];
  let schedules: Schedules;
  /** How the statement begins that the database cannot carry out. */
  let failsOn: string | undefined;

  beforeEach(() => {
    failsOn = undefined;
    due = [];
    statements = [];
    transactions = 0;
    added = [];
    const tx = {
      async raw(sql: string, values?: readonly unknown[]) {
        if (sql.startsWith('select now()')) return { rows: [{ now: NOW }] };
        statements.push([sql.replaceAll(/\s+/g, ' '), values]);
        if (failsOn !== undefined && sql.startsWith(failsOn)) throw new Error('the database is away');
        return { rows: sql.startsWith('select name') ? due : [] };
      },
    } as unknown as Tx;
    schedules = new Schedules({
      async inTransaction<T>(work: (tx: Tx) => Promise<T>) {
        transactions += 1;
        return work(tx);
      },
    } as JobStore);
  });
  const add = (name: string, cron: string, timeZone = 'UTC') =>
    schedules.add({
      name,
      schedule: { cron, timeZone },
      enqueue: async (_tx, slot) => void added.push([name, slot]),
    });

  it('note when they are due first, once', async () => {
    await schedules.register();
    expect(transactions).to.equal(0);
    add('hourly', '0 * * * *');
    add('daily', '0 3 * * *', 'Europe/Berlin');
    await schedules.register();
    await schedules.register();
    expect(statements.map(([, values]) => values)).to.deep.equal([
      ['hourly', '0 * * * *', 'UTC', new Date('2026-06-10T13:00:00.000Z')],
      ['daily', '0 3 * * *', 'Europe/Berlin', new Date('2026-06-11T01:00:00.000Z')],
    ]);
    expect(statements[0]?.[0]).to.match(/^insert into job_schedules .* on conflict \(name\) do update/);
    expect([transactions, schedules.names()]).to.deep.equal([1, ['hourly', 'daily']]);
  });

  it('are refused when they are never due, or in a zone that does not exist', () => {
    expect(() => add('never', '0 0 31 2 *')).to.throw();
    expect(() => add('nowhere', '0 0 * * *', 'Europe/Nowhere')).to.throw();
    expect(schedules.names()).to.deep.equal([]);
  });

  it('are added once for the time that was due, and wait for the next time from now on', async () => {
    add('hourly', '0 * * * *');
    due = [
      { name: 'of another release', dueAt: DUE },
      { name: 'hourly', dueAt: new Date('2026-06-09T07:00:00.000Z') },
    ];
    await schedules.enqueueDue();
    const next = new Date('2026-06-10T13:00:00.000Z');
    expect(added).to.deep.equal([
      ['hourly', { key: '2026-06-09T07:00:00.000Z', deadlineMs: next.getTime() - NOW.getTime() }],
    ]);
    expect(statements[0]?.[1]).to.deep.equal([['hourly']]);
    expect(statements.slice(1)).to.deep.equal([
      ['update job_schedules set next_at = ? where name = ?', [next, 'hourly']],
    ]);
  });

  it('stay due if the job, or the time after it, cannot be written', async () => {
    schedules.add({
      name: 'broken',
      schedule: { cron: '0 * * * *', timeZone: 'UTC' },
      enqueue: () => Promise.reject(new Error('the job is refused')),
    });
    due = [{ name: 'broken', dueAt: DUE }];
    expect(await schedules.enqueueDue().catch((error: Error) => error.message)).to.equal(
      'the job is refused',
    );
    expect(
      statements.filter(([sql]) => sql.startsWith('update')),
      'the transaction ends before',
    ).to.deep.equal([]);
    failsOn = 'update job_schedules';
    add('hourly', '0 * * * *');
    due = [{ name: 'hourly', dueAt: DUE }];
    expect(await schedules.enqueueDue().catch((error: Error) => error.message)).to.equal(
      'the database is away',
    );
  });

  it('are not taken for registered before all are noted', async () => {
    add('hourly', '0 * * * *');
    failsOn = 'insert into job_schedules';
    expect(await schedules.register().catch((error: Error) => error.message)).to.equal(
      'the database is away',
    );
    failsOn = undefined;
    await schedules.register();
    expect([transactions, statements.length]).to.deep.equal([2, 2]);
  });

  it('have a minute to begin, however soon they are due again', async () => {
    add('each minute', '* * * * *');
    due = [{ name: 'each minute', dueAt: DUE }];
    await schedules.enqueueDue();
    expect(added).to.deep.equal([['each minute', { key: DUE.toISOString(), deadlineMs: 60_000 }]]);
  });
});

describe('the wait before another attempt', () => {
  it('doubles up to the longest, less up to a fifth', () => {
    const backOff = { firstMs: 1000, longestMs: 5000 };
    expect([1, 2, 3, 4, 9].map((attempt) => retryDelayMs(attempt, backOff, 0))).to.deep.equal([
      1000, 2000, 4000, 5000, 5000,
    ]);
    expect([retryDelayMs(1, backOff, 1), retryDelayMs(1, backOff, 0.5)]).to.deep.equal([800, 900]);
  });
});
