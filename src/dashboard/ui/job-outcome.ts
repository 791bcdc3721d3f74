import { hasDoneItsWork, isFinal, scriptFailure, type Ending } from '../../protocol/index.ts';
import { formatCount, formatWord } from './format.ts';

/** How a job stands, for people. */
export interface JobOutcome {
  /** The state, or the exit code of a script that has failed. */
  text: string;
  group: 'good' | 'bad' | 'open';
}

export const jobOutcome = (ending: Ending): JobOutcome => ({
  text: scriptFailure(ending) ?? formatWord(ending.state),
  group: !isFinal(ending.state) ? 'open' : hasDoneItsWork(ending) ? 'good' : 'bad',
});

/** "3 succeeded, 2 exit code 1, 1 refused": how many there are of each outcome, the most first. */
export function tallyText(outcomes: readonly Pick<JobOutcome, 'text'>[]): string {
  const counts = new Map<string, number>();
  for (const { text } of outcomes) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([text, count]) => `${formatCount(count)} ${text.toLowerCase()}`)
    .join(', ');
}
