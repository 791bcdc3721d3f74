import { clock, type Timer } from '../../clock.ts';
import type { CheckState } from './health.schema.ts';

/**
 * Answers whether a part works; a part that this deployment does without is `not_configured`. A `spare` one is missed
 * but not needed: without it the node is `ready` all the same, and says `unavailable` of it.
 */
export type Check = (() => Promise<boolean>) | { spare: () => Promise<boolean> } | 'not_configured';

const PROBE_MS = 3000;
const PROBE_KEPT_MS = 1000;

/** One probe at a time however many ask, each check bounded: readiness must not add to an overload. */
export function sharedProbe(checks: Record<string, Check>): () => Promise<Record<string, CheckState>> {
  let current: Promise<Record<string, CheckState>> | undefined;
  const run = async () => {
    const entries = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => [name, await stateOf(check)] as const),
    );
    clock.setTimeout(() => (current = undefined), PROBE_KEPT_MS).unref();
    return Object.fromEntries(entries);
  };
  return async () => (current ??= run());
}

async function stateOf(check: Check): Promise<CheckState> {
  if (check === 'not_configured') return check;
  if ('spare' in check) return (await stateOf(check.spare)) === 'ok' ? 'ok' : 'unavailable';
  let timer: Timer | undefined;
  const late = new Promise<false>((resolve) => {
    timer = clock.setTimeout(() => resolve(false), PROBE_MS);
  });
  try {
    return (await Promise.race([check(), late])) ? 'ok' : 'failed';
  } catch {
    // A failing check is the answer here; what failed is logged where it is used.
    return 'failed';
  } finally {
    clock.clear(timer);
  }
}
