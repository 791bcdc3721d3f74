import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Counted, DaySpan } from '../trend-part.ts';
import { type Figure, FIGURES, PARTS } from './parts.ts';
import { countedSince, dayOf, putCounts, raiseCounts } from './trend.queries.ts';

const COUNT = defineJob({
  name: 'fleet-trends.count',
  input: z.object({}),
  result: z.object({ organizations: z.number() }),
  inCluster: 1,
  // The next count is at most an hour away.
  attempts: 1,
});

/** Counts the figures of all organizations each hour. */
export function countTrendsHourly({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(COUNT, async ({ signal }) => ({ organizations: await countTrends(db, clock.now(), signal) }));
  jobs.schedule(COUNT, { cron: '4 * * * *', timeZone: 'UTC' }, {});
}

const spanOf = (day: string): DaySpan => {
  const from = new Date(day);
  return { from, to: new Date(from.getTime() + DAY_MS) };
};

/** Returns how many organizations were counted. */
export async function countTrends(db: Db, now: number, signal?: AbortSignal): Promise<number> {
  const [yesterday, today] = [dayOf(now - DAY_MS), dayOf(now)];
  const counts = await countDay(db, today, PARTS, signal);
  await inBatches(db, [...counts.values()], (tx, rows) => putCounts(tx, today, rows));
  const former = await countDay(db, yesterday, PARTS.filter(countsEvents), signal);
  await inBatches(db, [...former.values()], (tx, rows) => raiseCounts(tx, yesterday, rows));
  return counts.size;
}

/** Whether a part counts what has happened since the day began, which can be counted again when the day is over. */
const countsEvents = ({ figures }: (typeof PARTS)[number]) => Object.values(figures).includes('during');

type CountedInPart = Pick<Counted<Figure>, 'orgId'> & Partial<Counted<Figure>>;

/**
 * Organizations that were counted on that day or the day before are counted again, also if nothing is left of them to
 * count: without a row for a day, the figures of the day before would go on being shown as the newest ones.
 */
async function countDay(
  db: Db,
  day: string,
  parts: readonly (typeof PARTS)[number][],
  signal: AbortSignal | undefined,
) {
  const none = Object.fromEntries(Object.keys(FIGURES).map((figure) => [figure, 0])) as Record<
    Figure,
    number
  >;
  const before = await withSystem(db, 'find the organizations that were counted lately', (tx) =>
    countedSince(tx, dayOf(Date.parse(day) - DAY_MS), day),
  );
  const counts = new Map<string, Counted<Figure>>(before.map((orgId) => [orgId, { ...none, orgId }]));
  for (const part of parts) {
    signal?.throwIfAborted();
    const rows = await withSystem(
      db,
      'count the figures of all organizations',
      async (tx): Promise<CountedInPart[]> => part.count(tx, spanOf(day)),
    );
    for (const row of rows) counts.set(row.orgId, { ...none, ...counts.get(row.orgId), ...row });
  }
  return counts;
}

const ORGANIZATIONS_AT_ONCE = 1000;

async function inBatches(
  db: Db,
  rows: readonly Counted<Figure>[],
  write: (tx: Parameters<typeof putCounts>[0], rows: readonly Counted<Figure>[]) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += ORGANIZATIONS_AT_ONCE) {
    await withSystem(db, 'store the figures of organizations', (tx) =>
      write(tx, rows.slice(at, at + ORGANIZATIONS_AT_ONCE)),
    );
  }
}
