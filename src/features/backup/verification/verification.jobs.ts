import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { EngineError } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { findEndOfCommand } from '../../commands/index.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { endCredential } from '../store/records/credentials.ts';
import { verifyIntegrity } from './integrity.ts';
import { beginTestRestore, judgeTestRestore, type TestRestoreParts } from './test-restore.ts';
import { BackupVerification } from './verification.model.ts';
import { addVerification } from './verification.service.ts';
import { VERIFY } from './verify-job.ts';

const Nothing = z.object({});
const SETTLE = defineJob({ name: 'backup.settle-verifications', input: Nothing, attempts: 1, inCluster: 1 });
const SWEEP = defineJob({ name: 'backup.verification-sweep', input: Nothing, attempts: 1, inCluster: 1 });

export function addVerificationJobs(jobs: Jobs, parts: TestRestoreParts): void {
  jobs.handle(VERIFY, ({ input, signal }) => verify(parts, input.verificationId, signal));
  jobs.handle(SETTLE, ({ signal }) => settleAll(parts.db, signal));
  jobs.handle(SWEEP, () => sweep(jobs, parts.db));
  jobs.schedule(SETTLE, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(SWEEP, { cron: '25 * * * *', timeZone: 'UTC' }, {});
}

/** What the engine could not do ends the verification with its code; anything else is tried again. */
export async function verify(parts: TestRestoreParts, id: string, signal: AbortSignal): Promise<void> {
  const begun = await withSystem(parts.db, 'begin a verification', async (tx) => {
    const verification = await BackupVerification.query(tx).findById(id).whereNull('finished_at');
    const repository = await BackupRepository.query(tx).findById(verification?.repositoryId ?? id);
    // After a restart of the server the device may have it already.
    if (verification === undefined || repository === undefined || verification.commandId !== null) {
      return undefined;
    }
    await verification.$query(tx).patch({ status: 'running', startedAt: clock.date() });
    return { verification, repository };
  });
  if (begun === undefined) return;
  const { verification, repository } = begun;
  let end: Partial<BackupVerification> | 'handed_over';
  try {
    end =
      verification.verificationType === 'integrity'
        ? await verifyIntegrity(parts, repository, signal)
        : await beginTestRestore(parts, verification, repository, signal);
  } catch (error) {
    if (!(error instanceof EngineError) || signal.aborted) throw error;
    end = { status: 'failed', errorCode: error.code, errorMessage: error.message };
  }
  if (end === 'handed_over') return;
  const ended = end;
  await withSystem(parts.db, 'end a verification', (tx) => endVerification(tx, id, ended));
}

const endVerification = (tx: Tx, id: string, end: Partial<BackupVerification>) =>
  BackupVerification.query(tx)
    .findById(id)
    .whereNull('finished_at')
    .patch({ ...end, finishedAt: clock.date() });

const SETTLED_AT_ONCE = 200;
const STALE = `now() - interval '26 hours'`;

/** Ends the test restores whose command has ended, and whatever nobody works on any more. */
export async function settleAll(db: Db, signal: AbortSignal): Promise<void> {
  for (let after = NONE; !signal.aborted; ) {
    const page = await withSystem(db, 'end the test restores that devices have done', async (tx) => {
      const open = await BackupVerification.query(tx)
        .where('id', '>', after)
        .whereNull('finished_at')
        .whereNotNull('command_id')
        .orderBy('id')
        .limit(SETTLED_AT_ONCE);
      for (const verification of open) await settle(tx, verification);
      return open;
    });
    if (page.length < SETTLED_AT_ONCE) break;
    after = page.at(-1)?.id ?? after;
  }
  await withSystem(db, 'end the verifications that nobody works on any more', (tx) =>
    BackupVerification.query(tx).whereNull('finished_at').whereRaw(`created_at < ${STALE}`).patch({
      status: 'failed',
      errorCode: 'TIMED_OUT',
      errorMessage: 'The verification did not end within 26 hours.',
      finishedAt: clock.date(),
    }),
  );
}

const NONE = '00000000-0000-0000-0000-000000000000';

async function settle(tx: Tx, verification: BackupVerification): Promise<void> {
  const { id, commandId, credentialId } = verification;
  const end = commandId === null ? undefined : await findEndOfCommand(tx, commandId);
  if (end === undefined) return;
  await endVerification(tx, id, judgeTestRestore(verification, end));
  if (credentialId !== null) await endCredential(tx, credentialId);
}

const SWEPT_AT_ONCE = 500;

/**
 * Verifies by itself: the integrity of each repository every week, and every day while its trash is held; a test restore
 * every 30 days, while the device is connected.
 */
export function sweep(jobs: Jobs, db: Db): Promise<{ added: number }> {
  return withSystem(db, 'find the repositories whose verification is due', async (tx) => {
    const { rows } = await tx.raw<{ rows: DueRow[] }>(
      `select r.id, r.org_id as "orgId", r.device_id as "deviceId", r.config_id as "configId",
        o.partner_id as "partnerId", due.type as "verificationType"
      from backup_repositories r join organizations o on o.id = r.org_id
      cross join lateral (
        select 'integrity' as type, case when r.trash_held_at is null then interval '7 days' else interval '1 day' end as every
        union all
        select 'test_restore', interval '30 days' where exists (
          select from device_presence p where p.device_id = r.device_id and p.state = 'connected')) due
      where r.provider = 'server' and r.initialized_at is not null
        and exists (select from backup_snapshots s where s.repository_id = r.id and s.removed_at is null)
        and not exists (select from backup_verifications v where v.repository_id = r.id
          and v.verification_type = due.type and v.created_at > now() - due.every)
      order by r.id limit ${SWEPT_AT_ONCE}`,
    );
    let added = 0;
    for (const { verificationType, partnerId, ...repository } of rows) {
      const wanted = { repository, verificationType, partnerId, snapshotId: null, createdBy: null };
      if ((await addVerification(tx, jobs, wanted)) !== undefined) added += 1;
    }
    return { added };
  });
}

type DueRow = Pick<BackupRepository, 'id' | 'orgId' | 'deviceId' | 'configId'> &
  Pick<BackupVerification, 'verificationType'> & { partnerId: string };
