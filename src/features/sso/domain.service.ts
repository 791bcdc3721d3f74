import { closestVerifiedDomain } from './sso.queries.ts';
import { randomBytes } from 'node:crypto';
import { clock } from '../../clock.ts';
import type { RateLimiter } from '../../platform/cluster/rate-limits.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { namingConflict, postgresError } from '../../platform/db/database-errors.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import type { TxtLookup } from '../../platform/outbound/txt-records.ts';
import { assertOrganizationAccess, Organization } from '../organizations/index.ts';
import { type Owned, SsoDomain } from './sso.model.ts';
import { asciiDomain } from '../../email-address.ts';
import {
  type NewSsoDomain,
  type SsoDomainQuery,
  ownershipRecord,
  type RecordState,
  recordState,
} from './domain.schema.ts';

/** Limited, because each verified domain is looked up every day. */
const MAX_OF_ORGANIZATION = 100;

export interface DomainParts {
  txtRecords: TxtLookup;
  ssoLimits: { domainChecks: Pick<RateLimiter, 'take'> };
}

const visible = (ctx: Context) =>
  SsoDomain.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'sso_domains.org_id'));

/** A domain as responses show it. */
const toDomainResponse = (domain: SsoDomain) => Object.assign(domain, { record: ownershipRecord(domain) });

export async function listDomains(ctx: Context, query: SsoDomainQuery) {
  const domains = visible(ctx)
    .orderBy(['domain', 'id'])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) {
    await assertOrganizationAccess(ctx, query.orgId);
    void domains.where('org_id', query.orgId);
  }
  const { results, total } = await domains;
  return toPage(query, { results: results.map(toDomainResponse), total });
}

export async function readDomain(ctx: Context, id: string) {
  return toDomainResponse(await find(ctx, id));
}

/** Creates a pending domain. Several organizations may create the same domain, but only one can verify it. */
export async function createDomain(ctx: Context, { orgId: given, domain }: NewSsoDomain) {
  const orgId = given ?? ctx.caller.orgId;
  if (orgId === null) throw invalid('body.orgId', 'is required in partner and system scope');
  await assertOrganizationAccess(ctx, orgId);
  const present = await visible(ctx).where('org_id', orgId).resultSize();
  if (present >= MAX_OF_ORGANIZATION) {
    throw new AppError('limit_reached', `Domain limit reached (${MAX_OF_ORGANIZATION}).`);
  }
  const created = await namingConflict(
    SsoDomain.query(ctx.tx).insertAndFetch({
      orgId,
      domain,
      token: randomBytes(32).toString('base64url'),
      createdBy: ctx.caller.userId,
    }),
    'sso_domains_org_id_domain_key',
    'body.domain',
    'This organization already has this domain.',
  );
  return toDomainResponse(created);
}

/** Looks up the record of a domain of the caller, outside any transaction, because the DNS may take seconds. */
export async function lookUpDomain(
  ctx: DetachedContext,
  id: string,
  { txtRecords, ssoLimits }: DomainParts,
): Promise<RecordState> {
  const domain = await ctx.withTenant((inner) => find(inner, id));
  await ssoLimits.domainChecks.take(domain.orgId);
  return recordState(txtRecords, domain);
}

/** @param record  the result of the look-up; it is still valid, because the token of a domain never changes */
export async function verifyDomain(ctx: Context, id: string, record: RecordState) {
  const domain = await visible(ctx).findById(id).forNoKeyUpdate();
  if (domain === undefined) throw notFound('Domain');
  const { name } = ownershipRecord(domain);
  if (record === 'unanswered') {
    throw new AppError('conflict', `The name servers of ${domain.domain} do not answer. Try again later.`);
  }
  if (record === 'absent') {
    throw new AppError(
      'conflict',
      `No TXT record at ${name} has the value that this domain needs. A new record can take an hour to become visible.`,
    );
  }
  const before = { status: domain.status, verifiedAt: domain.verifiedAt, failingSince: domain.failingSince };
  const verified = await ownedOnce(
    domain.$query(ctx.tx).patchAndFetch({
      status: 'verified',
      verifiedAt: domain.verifiedAt ?? clock.date(),
      failingSince: null,
    }),
  );
  const { status, verifiedAt, failingSince } = verified;
  ctx.recordChange(before, { status, verifiedAt, failingSince });
  return toDomainResponse(verified);
}

/** If two organizations verify the same domain at once, the unique index refuses one of them. */
async function ownedOnce<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (postgresError(error)?.constraint !== 'sso_domains_verified_key') throw error;
    throw new AppError('conflict', 'Another organization has verified this domain.', { cause: error });
  }
}

export async function deleteDomain(ctx: Context, id: string) {
  const domain = await find(ctx, id);
  await domain.$query(ctx.tx).delete();
  return { success: true as const, domain };
}

async function find(ctx: Context, id: string): Promise<SsoDomain> {
  const domain = await visible(ctx).findById(id);
  if (domain === undefined) throw notFound('Domain');
  return domain;
}

/**
 * Whether the owner of a provider has proved that it owns a domain or a parent of it. A partner owns the domains of its
 * organizations. If several organizations have proved a part of the name, the longest part decides. Needs a transaction
 * across tenants, which sees the domains of all.
 */
export async function isDomainProven(tx: Tx, owner: Owned, domain: string): Promise<boolean> {
  const name = asciiDomain(domain);
  if (name === undefined) return false;
  const closest = await closestVerifiedDomain(tx, name);
  if (closest === undefined) return false;
  if (owner.orgId !== null) return closest.orgId === owner.orgId;
  const organization = await Organization.query(tx).findById(closest.orgId).whereNull('deleted_at');
  return organization?.partnerId === owner.partnerId;
}
