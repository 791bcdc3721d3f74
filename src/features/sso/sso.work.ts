import { type CheckedDomain, verifiedDomains } from './sso.queries.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { TxtLookup } from '../../platform/outbound/txt-records.ts';
import { SsoDomain, ssoRetention } from './sso.model.ts';
import { recordState, type RecordState } from './domain.schema.ts';
import { PruneRound, RowPruner } from '../../platform/jobs/row-pruner.ts';

const CHECK = defineJob({
  name: 'sso.check-domains',
  input: z.object({}),
  result: z.object({ checked: z.number(), lapsed: z.number() }),
  inCluster: 1,
});

/** How many domains are looked up at the same time. Each look-up takes a few seconds at most. */
const AT_ONCE = 20;

/** The days without the record after which a domain becomes pending again. Longer if the name servers do not answer. */
const DAYS = { absent: 7, unanswered: 30 } as const;

const DAY_MS = 86_400_000;

interface Parts {
  db: Db;
  audit: AuditTrail;
  txtRecords: TxtLookup;
  log: Logger;
}

/** Checks once a day that verified domains still have their records, because domains are sold. */
export function checkDomainsDaily({ jobs, ...parts }: Parts & { jobs: Jobs }): void {
  jobs.handle(CHECK, ({ signal }) => checkDomains(parts, signal));
  jobs.schedule(CHECK, { cron: '23 4 * * *', timeZone: 'UTC' }, {});
}

/** If a domain cannot be checked, the others are checked all the same. */
export async function checkDomains(
  parts: Parts,
  signal?: AbortSignal,
): Promise<{ checked: number; lapsed: number }> {
  const count = { checked: 0, lapsed: 0 };
  let after: string | undefined;
  for (;;) {
    signal?.throwIfAborted();
    const domains = await withSystem(parts.db, 'find the verified domains of all organizations', (tx) =>
      verifiedDomains(tx, { after, limit: AT_ONCE }),
    );
    const states = await Promise.all(
      domains.map((domain) => attempt(parts, domain, () => stateOf(parts, domain))),
    );
    for (const [i, domain] of domains.entries()) {
      const state = states[i];
      if (state === undefined) continue;
      count.checked++;
      if ((await attempt(parts, domain, () => note(parts, domain, state))) === 'lapsed') count.lapsed++;
    }
    after = domains.at(-1)?.id;
    if (domains.length < AT_ONCE) return count;
  }
}

async function attempt<T>(
  { log }: Parts,
  { id: domainId, orgId }: CheckedDomain,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isDatabaseAway(error)) throw error;
    log.warn({ err: error, domainId, orgId }, 'sso.domain_not_checked');
    return undefined;
  }
}

const stateOf = async ({ txtRecords }: Parts, domain: CheckedDomain): Promise<RecordState> =>
  domain.isOwnerDeleted ? 'absent' : recordState(txtRecords, domain);

async function note(parts: Parts, domain: CheckedDomain, state: RecordState): Promise<'lapsed' | 'kept'> {
  const end = await withSystem(parts.db, 'note what the check of a domain has found', (tx) =>
    noteState(tx, domain, state, parts),
  );
  if (end === 'lapsed') parts.audit.committed();
  return end;
}

async function noteState(
  tx: Tx,
  { id, partnerId, isOwnerDeleted }: CheckedDomain,
  state: RecordState,
  { audit, log }: Pick<Parts, 'audit' | 'log'>,
): Promise<'lapsed' | 'kept'> {
  const domain = await SsoDomain.query(tx).findById(id).where('status', 'verified').forNoKeyUpdate();
  if (domain === undefined) return 'kept';
  if (!isOwnerDeleted && !isOver(domain.failingSince, state)) {
    const failingSince = state === 'present' ? null : (domain.failingSince ?? clock.date());
    if (failingSince !== domain.failingSince) await domain.$query(tx).patch({ failingSince });
    return 'kept';
  }
  await domain.$query(tx).patch({ status: 'pending', verifiedAt: null, failingSince: null });
  const { orgId } = domain;
  await audit.record(tx, {
    action: 'sso.domain.lapse',
    resourceType: 'sso_domain',
    resourceId: id,
    resourceName: domain.domain,
    details: { reason: isOwnerDeleted ? 'organization_deleted' : `record_${state}` },
    actor: { kind: 'system', orgId, partnerId },
    state: { client: { ip: null, userAgent: null }, log },
  });
  return 'lapsed';
}

function isOver(failingSince: Date | null, state: RecordState): boolean {
  if (failingSince === null || state === 'present') return false;
  return clock.now() - failingSince.getTime() >= DAYS[state] * DAY_MS;
}

const CLEAR = defineJob({
  name: 'sso.clear-expired',
  input: z.object({}),
  result: PruneRound,
  inCluster: 1,
  resumes: true,
});

/**
 * Removes sign-ins that were not finished, and with them the stored SAML responses. Anyone can begin a sign-in and
 * so create rows, therefore this runs more often than the daily removal of old rows.
 */
export function clearExpiredSignIns({ jobs, db, log }: { jobs: Jobs; db: Db; log: Logger }): void {
  const pruner = new RowPruner({ db, rules: ssoRetention, log });
  jobs.handle(CLEAR, ({ signal }) => pruner.prune(signal));
  jobs.schedule(CLEAR, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}
