import { groupedBy } from '../../platform/grouped-by.ts';
import { clock, WEEK_MS } from '../../clock.ts';
import { type Context, holds } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess, readOrganization } from '../organizations/index.ts';
import { lockOwner, type Owner, ownerOf } from '../owners/index.ts';
import { suppression, timeline } from './escalation.ts';
import { NotificationPolicy, type StoredStep } from './notification.model.ts';
import {
  accessiblePolicies,
  channelsAmong,
  devicePlace,
  channelNames,
  moveBehind,
  type Person,
  peopleAmong,
  policiesOfOrganization,
  setPositions,
  sitesAmong,
  wakeGroups,
} from './notification.queries.ts';
import { considered } from './policy-match.ts';
import {
  type NewPolicy,
  POLICIES_MAX,
  type PolicyMatch,
  type PolicyOrder,
  type PolicyPatch,
  type PolicyQuery,
  type PolicyStep,
  type Simulation,
  type SimulationAnswer,
} from './policy.schema.ts';

const NAME_TAKEN = 'Another policy of the same owner has this name.';
const ACT = 'change notification policies of the partner';
const DEFAULT_GROUP_SECONDS = 30;

export async function listPolicies(ctx: Context, query: PolicyQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const policies = accessiblePolicies(ctx)
    .orderByRaw('org_id nulls last, partner_id, position, id')
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void policies.where('org_id', query.orgId);
  if (query.ofPartner !== undefined) void policies.whereNull('org_id');
  const { results, total } = await policies;
  return toPage(query, { results: await toResponses(ctx, results), total });
}

export async function readPolicy(ctx: Context, id: string) {
  return toResponse(ctx, await findPolicy(ctx, id));
}

async function findPolicy(ctx: Context, id: string): Promise<NotificationPolicy> {
  const policy = await accessiblePolicies(ctx).findById(id);
  if (policy === undefined) throw notFound('Notification policy');
  return policy;
}

async function lockPolicy(ctx: Context, id: string): Promise<NotificationPolicy> {
  const policy = await accessiblePolicies(ctx).findById(id).forNoKeyUpdate();
  if (policy === undefined) throw notFound('Notification policy');
  if (policy.orgId !== null) await assertManageable(ctx, policy.orgId);
  return policy;
}

export async function createPolicy(ctx: Context, { orgId, ...input }: NewPolicy) {
  const owner = await ownerOf(ctx, orgId, ACT);
  await lockOwner(ctx.tx, owner);
  const match = input.match ?? {};
  const steps = stored(input.steps);
  await assertKnown(ctx, owner, { match, steps });
  const present = await ofOwner(ctx, owner).resultSize();
  if (present >= POLICIES_MAX) {
    throw new AppError('limit_reached', `Notification policy limit reached (${POLICIES_MAX}).`);
  }
  const groupBy = input.groupBy ?? 'none';
  const policy = await named(
    NotificationPolicy.query(ctx.tx).insertAndFetch({
      ...owner,
      name: input.name,
      enabled: input.enabled ?? true,
      match,
      steps,
      repeatEveryMinutes: input.repeatEveryMinutes ?? null,
      groupBy,
      groupSeconds: input.groupSeconds ?? (groupBy === 'none' ? 0 : DEFAULT_GROUP_SECONDS),
      until: input.until ?? 'acknowledged',
      position: present,
      createdBy: ctx.caller.userId,
    }),
  );
  return toResponse(ctx, policy);
}

const ofOwner = ({ tx }: Context, { partnerId, orgId }: Owner) =>
  NotificationPolicy.query(tx).where({ partner_id: partnerId, org_id: orgId });

const stored = (steps: readonly PolicyStep[]): StoredStep[] =>
  steps.map(({ afterMinutes, channelIds = [], userIds = [] }) => ({ afterMinutes, channelIds, userIds }));

export async function updatePolicy(ctx: Context, id: string, patch: PolicyPatch) {
  const policy = await lockPolicy(ctx, id);
  const { steps: given, ...changes } = omitUndefined(patch);
  if (Object.keys(patch).length === 0) throw noFields();
  const steps = given === undefined ? policy.steps : stored(given);
  if (given !== undefined || changes.match !== undefined) {
    // What is not sent was checked before, and may have left the tenant since.
    const sent = { match: changes.match ?? {}, steps: given === undefined ? [] : steps };
    await assertKnown(ctx, policy, sent, policy);
  }
  const before = recorded(policy);
  const updated = await named(policy.$query(ctx.tx).patchAndFetch({ ...changes, steps }));
  // Open conversations go on by the new rules.
  await wakeGroups(ctx.tx, id);
  ctx.recordChange(before, recorded(updated));
  return toResponse(ctx, updated);
}

const recorded = ({
  name,
  enabled,
  match,
  steps,
  repeatEveryMinutes,
  groupBy,
  groupSeconds,
  until,
}: NotificationPolicy) => ({ name, enabled, match, steps, repeatEveryMinutes, groupBy, groupSeconds, until });

export async function deletePolicy(ctx: Context, id: string) {
  await lockOwner(ctx.tx, await findPolicy(ctx, id));
  const policy = await lockPolicy(ctx, id);
  await policy.$query(ctx.tx).delete();
  await moveBehind(ctx.tx, policy);
  return { success: true as const, policy };
}

export async function orderPolicies(ctx: Context, { orgId, policyIds }: PolicyOrder) {
  const owner = await ownerOf(ctx, orgId, ACT);
  await lockOwner(ctx.tx, owner);
  const before = (await ofOwner(ctx, owner).orderBy('position').select('id')).map(({ id }) => id);
  const isSame = new Set(policyIds).size === policyIds.length && policyIds.length === before.length;
  if (!isSame || before.some((id) => !policyIds.includes(id))) {
    throw invalid('body.policyIds', 'must have all policies of the owner, each once');
  }
  await setPositions(ctx.tx, policyIds);
  ctx.recordChange({ policyIds: before }, { policyIds });
  return { policyIds: [...policyIds], owner };
}

interface Named {
  match: PolicyMatch;
  steps: readonly StoredStep[];
}

/**
 * Refuses what does not belong to the tenant of the policy, and names the field.
 * @param before  what the policy has may stay, though the caller may not see it: channels of the partner
 */
async function assertKnown(ctx: Context, owner: Owner, { match, steps }: Named, before?: NotificationPolicy) {
  const kept = new Set(before?.steps.flatMap(({ channelIds }) => channelIds));
  const channels = new Set([
    ...kept,
    ...(await channelsAmong(ctx, owner, [...new Set(steps.flatMap(({ channelIds }) => channelIds))])),
  ]);
  const people = new Set(
    (await peopleAmong(ctx.tx, owner, [...new Set(steps.flatMap(({ userIds }) => userIds))])).map(
      ({ id }) => id,
    ),
  );
  for (const [place, { channelIds, userIds }] of steps.entries()) {
    assertAll(channelIds, channels, `body.steps.${place}.channelIds`, CHANNEL_RULE);
    assertAll(userIds, people, `body.steps.${place}.userIds`, PERSON_RULE);
  }
  await assertKnownPlaces(ctx, owner, match);
}

const CHANNEL_RULE = 'must be a channel of the owner of the policy, or of its partner';
const PERSON_RULE = 'must be a person who reaches the organization, or belongs to the partner';

function assertAll(ids: readonly string[], known: ReadonlySet<string>, field: string, rule: string): void {
  const place = ids.findIndex((id) => !known.has(id));
  if (place >= 0) throw invalid(`${field}.${place}`, rule);
}

async function assertKnownPlaces(ctx: Context, owner: Owner, { orgIds, siteIds }: PolicyMatch) {
  if (orgIds !== undefined) {
    if (owner.orgId !== null) throw invalid('body.match.orgIds', 'is for policies of the partner only');
    await assertOrganizationAccess(ctx, ...orgIds);
  }
  if (siteIds === undefined) return;
  const sites = await sitesAmong(ctx.tx, owner, siteIds);
  assertAll(siteIds, sites, 'body.match.siteIds', 'must be a site of the tenant of the policy');
}

async function toResponse(ctx: Context, policy: NotificationPolicy) {
  const [response] = await toResponses(ctx, [policy]);
  if (response === undefined) throw new Error('A policy has no answer.');
  return response;
}

async function toResponses(ctx: Context, policies: readonly NotificationPolicy[]) {
  const channels = await channelNames(
    ctx.tx,
    policies.map(({ id }) => id),
  );
  const people = await peopleOf(ctx, policies);
  return policies.map((policy) => ({
    ...policy.$toJson(),
    channels: channels.filter(({ policyId }) => policyId === policy.id),
    users: people.get(policy.id) ?? [],
  }));
}

/** By policy. One query for each owner: a page shows those of few. */
async function peopleOf(ctx: Context, policies: readonly NotificationPolicy[]) {
  const people = new Map<string, Pick<Person, 'id' | 'name'>[]>();
  const owners = groupedBy(policies, ({ partnerId, orgId }) => orgId ?? partnerId);
  for (const [first, ...others] of owners.values()) {
    if (first === undefined) continue;
    const all = [first, ...others];
    const ids = [...new Set(all.flatMap(({ steps }) => steps.flatMap(({ userIds }) => userIds)))];
    const known = new Map((await peopleAmong(ctx.tx, first, ids)).map((person) => [person.id, person]));
    for (const { id, steps } of all) {
      const named = new Set(steps.flatMap(({ userIds }) => userIds));
      people.set(
        id,
        [...named].flatMap((userId) => known.get(userId) ?? []),
      );
    }
  }
  return people;
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'notification_policies_name', 'body.name', NAME_TAKEN);

/** As long as the longest step lies ahead. */
const SIMULATED_MS = WEEK_MS;
const SIMULATED_MAX = 500;

/** What would be told about an alert, and to whom, if nobody did anything. */
export async function simulate(ctx: Context, input: Simulation): Promise<SimulationAnswer> {
  const { orgId, severity, kind, deviceId, at = clock.date() } = input;
  await assertOrganizationAccess(ctx, orgId);
  const { partnerId } = await readOrganization(ctx, orgId);
  const place = await placeOf(ctx, { partnerId, orgId }, deviceId, input.siteId);
  const policies = await policiesOfOrganization(ctx.tx, { partnerId, orgId });
  const seen = considered(policies, { orgId, severity, kind, siteId: place }, at);
  const last = seen.at(-1);
  const policy = last?.fault === null ? last.policy : undefined;
  const answer = {
    policyId: policy?.id ?? null,
    policyName: policy?.name ?? null,
    considered: seen.map(({ policy: { id, name }, fault }) => ({ policyId: id, policyName: name, fault })),
  };
  if (policy === undefined) return { ...answer, timeline: [], isCut: false };

  const names = new Map((await channelNames(ctx.tx, [policy.id])).map(({ id, name }) => [id, name]));
  const userIds = [...new Set(policy.steps.flatMap((step) => step.userIds))];
  const people = new Map(
    (await peopleAmong(ctx.tx, { partnerId, orgId }, userIds)).map((person) => [person.id, person]),
  );
  const told: SimulationAnswer['timeline'] = [];
  for (const telling of timeline(policy, at, new Date(at.getTime() + SIMULATED_MS))) {
    const steps =
      telling.reason === 'repeated' ? policy.steps : policy.steps.slice(telling.step, telling.step + 1);
    const about = { at: telling.at.toISOString(), reason: telling.reason, step: telling.step + 1 };
    for (const id of new Set(steps.flatMap(({ channelIds }) => channelIds))) {
      told.push({ ...about, channelId: id, userId: null, name: names.get(id) ?? null, suppressed: null });
    }
    for (const id of new Set(steps.flatMap((step) => step.userIds))) {
      const person = people.get(id);
      const suppressed = whyNotTold(person, severity, telling.at) ?? null;
      told.push({ ...about, channelId: null, userId: id, name: person?.name ?? null, suppressed });
    }
    if (told.length > SIMULATED_MAX) break;
  }
  return { ...answer, timeline: told.slice(0, SIMULATED_MAX), isCut: told.length > SIMULATED_MAX };
}

async function placeOf(
  ctx: Context,
  organization: { partnerId: string; orgId: string },
  deviceId?: string,
  siteId?: string,
): Promise<string | null> {
  if (siteId !== undefined) {
    const sites = await sitesAmong(ctx.tx, organization, [siteId]);
    if (!sites.has(siteId)) throw invalid('body.siteId', 'must be a site of the organization');
  }
  if (deviceId === undefined) return siteId ?? null;
  const ofDevice = await devicePlace(ctx.tx, organization.orgId, deviceId);
  if (ofDevice === undefined) throw invalid('body.deviceId', 'must be a device of the organization');
  return siteId ?? ofDevice;
}

/**
 * Why a person is not told about an alert; `undefined` if they are.
 * @param person  absent if they do not reach its organization
 */
export function whyNotTold(
  person: Person | undefined,
  severity: Parameters<typeof suppression>[1],
  at: Date,
): string | undefined {
  if (person === undefined) return 'The person does not reach the organization any more.';
  if (person.status !== 'active') return 'The account of the person is disabled.';
  if (!holds(new Set(person.permissions), 'alerts:read')) return 'The person may not read alerts.';
  return suppression(person, severity, at);
}
