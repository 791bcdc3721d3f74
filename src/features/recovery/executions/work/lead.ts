import { z } from 'zod';
import type { Tx } from '../../../../platform/db/transaction.ts';
import { defineJob } from '../../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../../../platform/omit-undefined.ts';

/**
 * Leads an execution to its end. What it has done is in the tables, so another server goes on from there; and two that
 * lead the same execution take turns, by a lock on its row.
 */
const LEADING = {
  input: z.object({ executionId: z.uuid() }),
  result: z.object({}),
  attempts: 1000,
  backOff: { firstMs: 1000, longestMs: 30_000 },
  // It does nothing but to look, most of the time.
  concurrency: 50,
  resumes: true,
};
export const LEAD = defineJob({ ...LEADING, name: 'recovery.lead' });
/** The same with places of its own, so that an abort never waits behind executions that take hours. */
export const LEAD_ABORT = defineJob({ ...LEADING, name: 'recovery.lead-abort' });

/** @param again  names a later leader, which is added once */
export const enqueueLead = (tx: Tx, jobs: Jobs, execution: Led, again?: string): Promise<void> =>
  enqueue(tx, jobs, { job: LEAD, execution, key: again });

export const enqueueAbort = (tx: Tx, jobs: Jobs, execution: Led): Promise<void> =>
  enqueue(tx, jobs, { job: LEAD_ABORT, execution, key: execution.id });

interface Led {
  id: string;
  orgId: string;
}

async function enqueue(
  tx: Tx,
  jobs: Jobs,
  { job, execution: { id, orgId }, key }: { job: typeof LEAD; execution: Led; key: string | undefined },
): Promise<void> {
  const owner = await tx('organizations')
    .where('id', orgId)
    .first<{ partner_id: string } | undefined>('partner_id');
  const partnerId = owner?.partner_id ?? null;
  await jobs.enqueue(tx, job, { executionId: id }, { partnerId, ...omitUndefined({ key }) });
}
