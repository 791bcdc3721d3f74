import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import { conductRollouts } from './conductor.ts';

const RESULT = z.object({ steps: z.array(z.object({ rolloutId: z.string(), step: z.string() })) });

const CONDUCT = defineJob({
  name: 'agent-rollouts.conduct',
  input: z.object({}),
  result: RESULT,
  inCluster: 1,
  // Not retried, because the next round comes soon.
  attempts: 1,
});
/** Between two whole rounds: failures halt a rollout sooner than within a minute. */
const LOOK_AT_FAILURES = defineJob({
  name: 'agent-rollouts.look-at-failures',
  input: z.object({}),
  result: RESULT,
  inCluster: 1,
  attempts: 1,
});
const LOOK_EVERY_MS = 15_000;

export interface ConductorParts {
  jobs: Jobs;
  db: Db;
  log: Logger;
}

/** Decides about rollouts once a minute, and looks for failures in between while one is running. */
export function conductRolloutsRegularly({ jobs, db, log }: ConductorParts): void {
  const lookLater = (at: number) =>
    // The key makes one job of those that several rounds add for the same time.
    jobs.enqueue(
      undefined,
      LOOK_AT_FAILURES,
      {},
      {
        key: String(Math.floor(at / LOOK_EVERY_MS)),
        delayMs: LOOK_EVERY_MS - (at % LOOK_EVERY_MS),
        deadlineMs: 60_000,
      },
    );
  const round = async (isWhole: boolean) => {
    const { isRunning, steps } = await conductRollouts({ db, log }, { isWhole });
    if (isRunning) await lookLater(clock.now());
    return { steps };
  };
  jobs.handle(CONDUCT, () => round(true));
  jobs.handle(LOOK_AT_FAILURES, () => round(false));
  jobs.schedule(CONDUCT, { cron: '* * * * *', timeZone: 'UTC' }, {});
}
