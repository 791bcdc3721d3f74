import type { QueryOutcome } from '../../../../protocol/index.ts';

export type Outcome = QueryOutcome['outcome'];

export const OUTCOME_NAMES: Record<Outcome, string> = {
  answered: 'Answered',
  no_match: 'No match',
  offline: 'Offline',
  error: 'Error',
  timed_out: 'Timed out',
  cancelled: 'Cancelled',
};

/** "Answered" means that entries came: a device that read its log and found none is "no match". */
export const OUTCOMES: readonly Outcome[] = [
  'answered',
  'no_match',
  'offline',
  'error',
  'timed_out',
  'cancelled',
];

export function groupOutcomes(outcomes: readonly QueryOutcome[]): Record<Outcome, QueryOutcome[]> {
  const groups: Record<Outcome, QueryOutcome[]> = {
    answered: [],
    no_match: [],
    offline: [],
    error: [],
    timed_out: [],
    cancelled: [],
  };
  for (const outcome of outcomes) groups[outcome.outcome].push(outcome);
  return groups;
}
