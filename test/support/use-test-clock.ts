import { clock, type TimeSource } from '../../src/clock.ts';
import { TestClock } from './test-clock.ts';

/**
 * The time of the programs under test for the enclosing `describe`: it runs with the machine's until the test moves it.
 * One that `isRunning: false` moves by `advance` alone.
 */
export function useTestClock(options: { isRunning?: boolean } = {}): TestClock {
  const testClock = new TestClock(options);
  let former: TimeSource;
  before(() => {
    former = clock.takeTimeFrom(testClock);
  });
  after(() => {
    clock.takeTimeFrom(former);
  });
  return testClock;
}
