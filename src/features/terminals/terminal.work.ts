import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { AuditEntry, AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { type EndedRow, endUnseen } from './terminal.queries.ts';

/** A terminal that no server has seen for this long has ended: its device has ended it, too. */
export const SEEN_MINUTES = 7;

const END_UNSEEN = defineJob({
  name: 'terminals.end-unseen',
  input: z.object({}),
  result: z.object({ ended: z.number() }),
  attempts: 1,
  inCluster: 1,
  resumes: true,
});

/**
 * Records once a minute the end of terminals that have had no viewer for a while, or whose server has died. Their devices
 * end them by themselves.
 */
export function endUnseenTerminals({
  jobs,
  db,
  audit,
  log,
}: {
  jobs: Jobs;
  db: Db;
  audit: AuditTrail;
  log: Logger;
}): void {
  jobs.handle(END_UNSEEN, async () => {
    const ended = await withSystem(db, 'end terminals without a viewer', async (tx) => {
      const rows = await endUnseen(tx, SEEN_MINUTES);
      await audit.recordAll(
        tx,
        rows.map((row) => endEntry(row, log)),
      );
      return rows.length;
    });
    if (ended > 0) audit.committed();
    return { ended };
  });
  jobs.schedule(END_UNSEEN, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

/** The audit entry of an end. The actor is the person of the terminal, whatever has ended it. */
export function endEntry(ended: EndedRow, log: Logger): AuditEntry {
  const { orgId, partnerId, userId, userEmail: email } = ended;
  const actor =
    userId === null
      ? { kind: 'system' as const, orgId, partnerId }
      : { kind: 'user' as const, userId, apiKeyId: null, email, orgId, partnerId };
  return {
    action: 'device.terminal.close',
    resourceType: 'device',
    orgId,
    partnerId,
    resourceId: ended.deviceId,
    resourceName: ended.hostname,
    details: { terminalId: ended.id, reason: ended.endReason, seconds: ended.seconds },
    actor,
    state: { client: { ip: null, userAgent: null }, log },
  };
}
