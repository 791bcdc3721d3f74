import type { TrialEnd } from '../../agent/os/upgrades/trial-file.ts';

/** Why a release is not used, as people read it in the history, the alert and on the machine. Pure. */
export interface Cause {
  code: string;
  message: string;
}

/** As long as a report may be. */
const MESSAGE_MAX = 2000;

/** The sentence first, because only the first line is shown where there is little room. */
export function withOutput(sentence: string, output: readonly string[]): string {
  const text = output.length === 0 ? sentence : `${sentence}\nLast output:\n${output.join('\n')}`;
  return text.slice(0, MESSAGE_MAX);
}

/** @param starts  how often it was started, which is more than there are ends where the watchdog was ended as well */
export function endedInTrial(starts: number, ends: readonly TrialEnd[]): Cause {
  const counted = `The release ended ${times(starts)} during its trial`;
  if (ends.length === 0) {
    return {
      code: 'CRASHED',
      message: `${counted}, and its watchdog with it, so that nothing is known of how.`,
    };
  }
  const last = ends.at(-1);
  return {
    code: codeOf(ends),
    message: withOutput(`${counted}. ${howTheyEnded(ends)}`, last?.output ?? []),
  };
}

/** A release that was healthy in its trial, and ends more often than the one before it. */
export function endedAfterTrial(facts: {
  ends: readonly TrialEnd[];
  count: number;
  withinMs: number;
  before: number;
}): Cause {
  const { ends, count, withinMs, before } = facts;
  const sentence = `The release ended ${times(count)} within ${duration(withinMs)} after its trial; the one before it ended ${times(before)} in the day before. ${howTheyEnded(ends)}`;
  return { code: codeOf(ends), message: withOutput(sentence, ends.at(-1)?.output ?? []) };
}

const codeOf = (ends: readonly TrialEnd[]) => (ends.every(({ isSilent }) => isSilent) ? 'HUNG' : 'CRASHED');

/** Each way once, the last one first. */
function howTheyEnded(ends: readonly TrialEnd[]): string {
  return [...new Set(ends.map(({ how }) => how).reverse())].join(' Before: ');
}

const times = (count: number) => (count === 1 ? 'once' : count === 0 ? 'not once' : `${count} times`);

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`;
}
