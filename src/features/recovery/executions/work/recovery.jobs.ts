import { z } from 'zod';
import { clock } from '../../../../clock.ts';
import { withSystem } from '../../../../platform/db/transaction.ts';
import { defineJob, type JobRun } from '../../../../platform/jobs/definition.ts';
import { advance, type AdvanceParts } from './advance.ts';
import { beginDueRehearsals } from './due-rehearsals.ts';
import { enqueueLead, LEAD, LEAD_ABORT } from './lead.ts';
import { followLeftovers } from './leftovers.ts';

/** While nothing moves: checks answer within moments, and a restore may take hours. An abort is seen after the longest. */
const PAUSE_MS = { first: 100, longest: 1000 } as const;
/** An execution on which no server has worked for so long has lost its leader. */
const LEADERLESS = `interval '90 seconds'`;

const WATCH = defineJob({ name: 'recovery.watch', input: z.object({}), attempts: 1, inCluster: 1 });

export function addRecoveryJobs(parts: AdvanceParts): void {
  const { jobs } = parts;
  const lead = async ({ input, signal }: JobRun<{ executionId: string }>) => {
    let pauseMs: number = PAUSE_MS.first;
    while (!signal.aborted) {
      const advanced = await advance(parts, input.executionId, signal);
      if (advanced === 'ended') return {};
      pauseMs = advanced === 'moved' ? PAUSE_MS.first : Math.min(pauseMs * 1.5, PAUSE_MS.longest);
      if (advanced === 'still') await clock.sleep(pauseMs, { signal }).catch(() => undefined);
    }
    signal.throwIfAborted();
    return {};
  };
  jobs.handle(LEAD, lead);
  jobs.handle(LEAD_ABORT, lead);
  jobs.handle(WATCH, async ({ signal }) => {
    await beginDueRehearsals(parts, signal);
    await leadAgain(parts);
    await followLeftovers(parts);
  });
  jobs.schedule(WATCH, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

/** The jobs of leaders are taken over by themselves. This is for those that have used up their attempts. */
const leadAgain = ({ db, jobs }: AdvanceParts): Promise<void> =>
  withSystem(db, 'lead executions of recovery plans that nobody leads', async (tx) => {
    const left = await tx('dr_executions')
      .whereNull('finished_at')
      .whereRaw(`led_at < now() - ${LEADERLESS}`)
      .orderBy('led_at')
      .limit(100)
      .select<{ id: string; org_id: string; led_at: Date }[]>('id', 'org_id', 'led_at');
    for (const { id, org_id: orgId, led_at: ledAt } of left) {
      await enqueueLead(tx, jobs, { id, orgId }, `${id} ${ledAt.toISOString()}`);
    }
  });
