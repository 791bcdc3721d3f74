import { noteBreach, POLL_MS, WAIT_MS_MAX } from './runner/rules.ts';

/**
 * Waits until `read` returns something that `fits`. The time only ends a test that would hang. In the tiers under rules
 * a wait that takes more polls than fit into two seconds fails the test, however long they took: on a busy machine each
 * takes longer.
 */
export async function eventually<T>(
  read: () => Promise<T> | T,
  fits: (value: T) => boolean,
  withinMs = 30_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (let polls = 1; ; polls++) {
    const value = await read();
    if (fits(value)) {
      if (polls * POLL_MS > WAIT_MS_MAX) noteBreach('wait', `${polls} polls`);
      return value;
    }
    if (performance.now() > deadline) {
      throw new Error(`did not happen within ${withinMs} ms; last: ${JSON.stringify(value)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
