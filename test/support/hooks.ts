import { clock } from '../../src/clock.ts';
import { isWholeRun, noteFileTime, noteTestTime } from './file-times.ts';
import { closeAll, closeShared } from './runner/at-end.ts';
import { beginRun, forgetBreaches, installRules, isUnderRules, judge, startOfTest } from './runner/rules.ts';
import { testClock } from './test-clock.ts';
import { stopTestPostgres } from './test-postgres.ts';

/** Tests start from the embedded default: what the machine happens to offer must not decide what they see. */
for (const name of [
  'DATABASE_URL',
  'DATABASE_URL_APP',
  'REDIS_URL',
  'JWT_SECRET',
  'SECRET_ENCRYPTION_KEY',
  'APP_ENCRYPTION_KEY',
  'SECRET_ENCRYPTION_KEYS_OLD',
  'POSTGRES_PASSWORD',
  'SVC_APP_DB_PASSWORD',
  'SVC_ADMIN_EMAIL',
  'SVC_ADMIN_PASSWORD',
  'PORT',
  'HOST',
  'DATA_DIR',
]) {
  delete process.env[name];
}

installRules();
clock.takeTimeFrom(testClock);

/** Judges the test by the rules of its tier when it has ended well. */
function judgeAtTheEnd(test: Mocha.Test | undefined): void {
  const body = test?.fn;
  // No test of ours takes a callback.
  if (test === undefined || body == null || body.length > 0 || !isUnderRules(test.file)) return;
  test.fn = async function judged(this: Mocha.Context) {
    const start = startOfTest();
    try {
      await Reflect.apply(body, this, []);
    } catch (error) {
      // What it broke until then is not the fault of the next test.
      forgetBreaches();
      throw error;
    }
    noteTestTime(test.file ?? '', test.fullTitle(), judge(start, !isWholeRun));
  };
}

/**
 * Whether a suite stands in `test/unit`. Its tests put a clock of their own in place of the process's, so no server may
 * run beside them: it would take its timers from that clock.
 */
const isUnit = (suite: Mocha.Suite | undefined) => /[\\/]test[\\/]unit[\\/]/.test(suite?.file ?? '');

/** Nothing that earlier files of this process have started goes on while a unit counts its own timers. */
async function beginUnits(): Promise<void> {
  await closeShared();
  testClock.abandon();
}

export const mochaHooks = {
  async beforeAll(this: Mocha.Context) {
    const suites = this.test?.parent?.suites ?? [];
    beginRun(suites.map(({ file }) => file));
    for (const [at, suite] of suites.entries()) {
      // Each file leaves the clock as it found it, whichever files share this process, and no rule that it broke.
      suite.afterAll(() => {
        testClock.reset();
        forgetBreaches();
      });
      if (isUnit(suites[at + 1])) suite.afterAll(beginUnits);
    }
    if (isUnit(suites[0])) await beginUnits();
  },
  beforeEach(this: Mocha.Context) {
    judgeAtTheEnd(this.currentTest);
  },
  async afterAll(this: Mocha.Context) {
    await closeAll();
    await stopTestPostgres();
    // Where the files run in parallel, this is after each of them.
    const file = this.test?.parent?.suites[0]?.file;
    if (file !== undefined) noteFileTime(file);
  },
};
