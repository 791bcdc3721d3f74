/** How much of logs may be stored, and whether that is spent: a pure core. */

export interface Amounts {
  entries: number;
  bytes: number;
}

/** On the present day (UTC), and on all days that are kept. */
export interface Usage {
  day: Amounts;
  total: Amounts;
}

export type Budgets = Record<'device' | 'organization', Usage>;

const MIB = 1024 ** 2;
const GIB = 1024 * MIB;

/** Many times what a machine reports that is well, and little enough that a bad one does not fill the disk. */
export const BUDGETS: Budgets = {
  device: {
    day: { entries: 100_000, bytes: 100 * MIB },
    total: { entries: 2_000_000, bytes: 2 * GIB },
  },
  organization: {
    day: { entries: 5_000_000, bytes: 4 * GIB },
    total: { entries: 200_000_000, bytes: 100 * GIB },
  },
};

/** Which of the two is spent, if one is. The day comes first, because it ends first. */
export function spentPeriod(used: Usage, budget: Usage): keyof Usage | undefined {
  return (['day', 'total'] as const).find(
    (period) => used[period].entries >= budget[period].entries || used[period].bytes >= budget[period].bytes,
  );
}

export const plus = (used: Usage, { entries, bytes }: Amounts): Usage => ({
  day: { entries: used.day.entries + entries, bytes: used.day.bytes + bytes },
  total: { entries: used.total.entries + entries, bytes: used.total.bytes + bytes },
});

const DAY_MS = 86_400_000;

/** Until the next day of UTC begins: the day's budget is whole again then, and the oldest day of the total ends. */
export const untilNextDay = (now: number): number => DAY_MS - (now % DAY_MS);
