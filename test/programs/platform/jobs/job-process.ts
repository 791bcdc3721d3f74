import { openPool } from '../../../../src/platform/db/pool.ts';
import { createJobs } from '../../../../src/platform/jobs/jobs.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { FAST, SECRET_KEYS } from '../../../support/platform/jobs/jobs-support.ts';
import { STEPS } from '../../../support/platform/jobs/steps-job.ts';

/** A server that begins the job, saves how far it came, and never ends it: for tests that kill it. */
const [url = ''] = process.argv.slice(2);
const db = openPool(url, { max: 3, name: 'test-job-process' });
const jobs = createJobs({ db, encryptor: createEncryptor(SECRET_KEYS), log: quietLog, timing: FAST });
jobs.handle(STEPS, async ({ saveProgress }) => {
  await saveProgress({ done: 3 });
  process.stdout.write('saved\n');
  await new Promise(() => {});
  return [];
});
jobs.start();
// The timers of jobs keep no process alive.
setInterval(() => {}, 60_000);
