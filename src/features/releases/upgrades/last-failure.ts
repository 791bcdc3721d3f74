import type { Assessment } from './assess-upgrades.ts';
import type { Upgrade } from './upgrade.schema.ts';

type Attempt = Pick<Upgrade['history'][number], 'targetVersion' | 'state' | 'code' | 'error'>;

const CAUSE_MAX = 500;

/**
 * What people read of a component whose last attempt at its target has failed: why it did, and when it is tried again.
 * Without it, the answer for a device that has just failed would be that nothing stands in the way. Pure.
 * @param history  the attempts of the component, newest first
 */
export function withLastFailure<T extends Assessment>(assessment: T, history: readonly Attempt[]): T {
  const { component, target, state, reason, nextAt } = assessment;
  if (state !== 'offered' && reason !== 'retry_later') return assessment;
  const last = history.find((one) => one.state !== 'offered');
  if (last === undefined || last.targetVersion !== target) return assessment;
  if (last.state !== 'failed' && last.state !== 'rolled_back') return assessment;
  const happened = last.state === 'failed' ? 'has failed' : 'was rolled back';
  const again = nextAt === undefined ? 'with the next heartbeat' : `at ${nextAt.toISOString()}`;
  const message = `The upgrade of the ${component} to ${target} ${happened}${causeOf(last)} It is tried again ${again}.`;
  return { ...assessment, message };
}

/** The first line of what the device reports; the history has the rest. */
function causeOf({ code, error }: Attempt): string {
  const [line = ''] = (error ?? '').split('\n');
  const text = line
    .trim()
    .slice(0, CAUSE_MAX)
    .replace(/[.:;,]$/, '');
  const named = code === null ? '' : ` (${code})`;
  return text === '' ? `${named}.` : `${named}: ${text}.`;
}
