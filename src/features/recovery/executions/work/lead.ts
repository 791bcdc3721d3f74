import { z } from 'zod';
import type { Tx } from '../../../../platform/db/transaction.ts';
import { defineJob } from '../../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../../platform/jobs/jobs.ts';

/**
 * Leads an execution to its end. What it has done is in the tables, so another server goes on from there; and two that
 * lead the same execution take turns, by a lock on its row.
 */
export const LEAD = defineJob({
  name: 'recovery.lead',
  input: z.object({ executionId: z.uuid() }),
  result: z.object({}),
  attempts: 1000,
  backOff: { firstMs: 1000, longestMs: 30_000 },
  concurrency: 16,
  resumes: true,
});

/** @param key  a second leader with the same one is not added */
export async function enqueueLead(
  tx: Tx,
  jobs: Jobs,
  { id, orgId }: { id: string; orgId: string },
  key?: string,
): Promise<void> {
  const owner = await tx('organizations')
    .where('id', orgId)
    .first<{ partner_id: string } | undefined>('partner_id');
  const partnerId = owner?.partner_id ?? null;
  await jobs.enqueue(tx, LEAD, { executionId: id }, key === undefined ? { partnerId } : { partnerId, key });
}
