import type { BackupSchedule } from './schedule.schema.ts';
import { newestSlot, nextSlot, spreadSeconds } from './schedule.ts';

/**
 * Which jobs of a schedule are to be made now. The devices of a slot are spread, and the job of each is made when its
 * second has come, so that a large fleet adds its jobs over minutes and not at once.
 */

/** How far the scheduler is, for one configuration and time zone. */
export interface SlotState {
  /** For which `scheduledSince` of the configuration this was computed. */
  since: Date;
  /** The slot that has come, while the time of some of its devices has not. */
  slot: Date | null;
  /** Up to this many seconds after the slot, jobs have been made; -1: none. */
  madeSeconds: number;
  nextAt: Date;
}

export interface SlotWork {
  /** Jobs to make: of the devices whose second is after `after` and at most `upTo`, of `spread`. */
  jobs: { slot: Date; after: number; upTo: number; spread: number } | undefined;
  state: SlotState;
}

/** Slots before `since` are not made up for, and of several that were missed only the newest is. */
export function slotWork(
  schedule: BackupSchedule,
  timeZone: string,
  { stored, since, now }: { stored: SlotState | undefined; since: Date; now: Date },
): SlotWork {
  const isCurrent = stored !== undefined && stored.since.getTime() === since.getTime();
  let { slot, madeSeconds, nextAt }: Omit<SlotState, 'since'> = isCurrent
    ? stored
    : { slot: null, madeSeconds: -1, nextAt: nextSlot(schedule, timeZone, since) };
  if (nextAt <= now) {
    const after = new Date(nextAt.getTime() - 1);
    slot = newestSlot(schedule, timeZone, { after, until: now }) ?? nextAt;
    madeSeconds = -1;
    nextAt = nextSlot(schedule, timeZone, slot);
  }
  if (slot === null) return { jobs: undefined, state: { since, slot, madeSeconds, nextAt } };
  const spread = spreadSeconds(schedule);
  const last = spread - 1;
  const upTo = Math.min(last, Math.floor((now.getTime() - slot.getTime()) / 1000));
  const isOver = upTo >= last;
  return {
    jobs: upTo > madeSeconds ? { slot, after: madeSeconds, upTo, spread } : undefined,
    state: { since, slot: isOver ? null : slot, madeSeconds: isOver ? -1 : upTo, nextAt },
  };
}
