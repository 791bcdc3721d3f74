import type { ScriptRun, ScriptRunDevice } from '../../api/index.ts';
import { formatCount, type StateLook } from '../../ui/index.ts';

/** How script runs are put in words. Pure. */

type Outcome = ScriptRunDevice['outcome'];

export const RUN_STATES: Record<ScriptRun['state'], StateLook> = {
  starting: { tone: 'busy', label: 'Starting' },
  running: { tone: 'busy', label: 'Running' },
  cancelling: { tone: 'warning', label: 'Cancelling' },
  completed: { tone: 'neutral', label: 'Ended' },
  cancelled: { tone: 'neutral', label: 'Cancelled' },
  failed: { tone: 'bad', label: 'Not started' },
};

export const OUTCOMES: Record<Outcome, StateLook> = {
  waiting: { tone: 'neutral', label: 'Waiting' },
  running: { tone: 'busy', label: 'Running' },
  completed: { tone: 'good', label: 'Completed' },
  failed: { tone: 'bad', label: 'Failed' },
  timed_out: { tone: 'bad', label: 'Timed out' },
  cancelled: { tone: 'neutral', label: 'Cancelled' },
  expired: { tone: 'warning', label: 'Expired' },
  refused: { tone: 'bad', label: 'Refused' },
};

export const OUTCOME_NAMES = Object.keys(OUTCOMES) as Outcome[];

const COUNT_OF: Record<Outcome, keyof ScriptRun['counts']> = {
  waiting: 'waiting',
  running: 'running',
  completed: 'completed',
  failed: 'failed',
  timed_out: 'timedOut',
  cancelled: 'cancelled',
  expired: 'expired',
  refused: 'refused',
};

export const countOf = (counts: ScriptRun['counts'], outcome: Outcome): number => counts[COUNT_OF[outcome]];

/** "3 completed, 1 failed, 2 waiting" */
export function countsText({ counts }: Pick<ScriptRun, 'counts'>): string {
  const parts = OUTCOME_NAMES.flatMap((outcome) => {
    const count = countOf(counts, outcome);
    return count === 0 ? [] : `${formatCount(count)} ${OUTCOMES[outcome].label.toLowerCase()}`;
  });
  return parts.length === 0 ? 'No devices' : parts.join(', ');
}

export const isOpen = ({ state }: Pick<ScriptRun, 'state'>): boolean =>
  state === 'starting' || state === 'running' || state === 'cancelling';

/** How many devices have ended, of all, in percent. */
export const percentOf = ({ counts, total }: Pick<ScriptRun, 'counts' | 'total'>): number =>
  total === 0 ? 100 : Math.floor(((total - counts.waiting - counts.running) / total) * 100);

/** A run whose devices ended in different ways looks like the worst of them. */
export function lookOf(run: Pick<ScriptRun, 'state' | 'counts'>): StateLook {
  const { state, counts } = run;
  if (state !== 'completed') return RUN_STATES[state];
  const bad = counts.failed + counts.timedOut + counts.refused;
  if (bad > 0) return { tone: 'bad', label: 'Ended with failures' };
  if (counts.expired > 0) return { tone: 'warning', label: 'Ended, some expired' };
  return { tone: 'good', label: 'Completed' };
}

/** How many devices *run again on those that failed* would take. */
export const failedCount = ({ counts }: Pick<ScriptRun, 'counts'>): number =>
  counts.failed + counts.timedOut + counts.expired;
