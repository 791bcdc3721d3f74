import { DAY_MS } from '../../clock.ts';

/**
 * How much of logs may be stored, whether that is spent, and which of an organization's oldest logs are removed to make
 * room for new ones: a pure core.
 */

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

/** How often room is made if an organization chose that its oldest logs are removed. */
export const MAKE_ROOM_EVERY_MINUTES = 10;

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

/** Until the next day of UTC begins: the day's budget is whole again then, and the oldest day of the total ends. */
export const untilNextDay = (now: number): number => DAY_MS - (now % DAY_MS);

/** The logs that devices of the organization stored on a day (UTC), such as 2026-11-27. */
interface ArrivalDay extends Amounts {
  day: string;
}

export interface Removal extends Amounts {
  from: string;
  through: string;
}

/**
 * Room is made from `begins` of the budget on, until no more than `ends` is used. The difference to the whole budget is
 * more than a day's budget, so logs that arrive meanwhile find room.
 */
export const MAKE_ROOM = { begins: 0.95, ends: 0.9 };

/** The larger of the parts that are used of the entries and of the bytes. */
export const usedPart = (used: Amounts, budget: Amounts): number =>
  Math.max(used.entries / budget.entries, used.bytes / budget.bytes);

/** @param days  in their order, the oldest first. The present day stays, because its logs are still arriving. */
export function oldestToRemove(
  days: readonly ArrivalDay[],
  { today, budget }: { today: string; budget: Amounts },
): Removal | undefined {
  let used = days.reduce(add, { entries: 0, bytes: 0 });
  if (usedPart(used, budget) < MAKE_ROOM.begins) return undefined;
  let removal: Removal | undefined;
  for (const { day, entries, bytes } of days) {
    if (day >= today || usedPart(used, budget) <= MAKE_ROOM.ends) break;
    removal = {
      from: removal?.from ?? day,
      through: day,
      ...add(removal ?? { entries: 0, bytes: 0 }, { entries, bytes }),
    };
    used = { entries: used.entries - entries, bytes: used.bytes - bytes };
  }
  return removal;
}

const add = (a: Amounts, b: Amounts): Amounts => ({
  entries: a.entries + b.entries,
  bytes: a.bytes + b.bytes,
});
