import { newestUpTo, lockFilter, assertUnused, type FilterReferrer, queryPreview } from './filter.queries.ts';
import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { type Context, holds } from '../../platform/context.ts';
import { containing } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { RawJson, AuditedJson } from '../../platform/http/route.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  conditionsText,
  type Fault,
  assertPatternsCompile,
  type Conditions,
  selectMatchable,
  toMatchable,
  visibleDevices,
} from '../conditions/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { FILTER_CHANGED, SavedFilter } from './filter.model.ts';
import {
  Filter,
  type FilterPatch,
  type FilterQuery,
  type NewFilter,
  EXPLAINED_MAX,
  type ExplainRequest,
  type PreviewRequest,
} from './filter.schema.ts';
import { accessible, checkedConditions, faultsOf, readFilter, conditionsOf } from './stored-conditions.ts';
import { clock } from '../../clock.ts';

interface Parts {
  /** Publishes changes of filters to live subscriptions and dynamic groups. */
  hub: Pick<DeviceHub, 'events'>;
  filterReferrers: readonly FilterReferrer[];
}

/** The maximum for one organization. The list is not paged. */
const FILTERS_MAX = 1000;
/** The maximum size of the conditions in one list. Further filters are left out, but `total` counts them. */
const LISTED_BYTES_MAX = 32_000_000;

export async function listFilters(ctx: Context, { search }: FilterQuery): Promise<RawJson> {
  const matching = accessible(ctx);
  if (search !== undefined) {
    const pattern = containing(search);
    void matching.where(
      (either) => void either.whereILike('name', pattern).orWhereILike('description', pattern),
    );
  }
  const total = await matching.clone().resultSize();
  const filters = await newestUpTo(ctx.tx, matching, LISTED_BYTES_MAX).select(
    'id',
    'org_id',
    'name',
    'description',
    'conditions',
    'created_by',
    'created_at',
    'updated_at',
  );
  return new RawJson(`{"data":[${filters.map((one) => asJson(one)).join(',')}],"total":${total}}`);
}

export async function showFilter(ctx: Context, id: string): Promise<RawJson> {
  const filter = await readFilter(ctx, id);
  return new RawJson(asJson(filter, await faultsOf(ctx, filter)));
}

export async function createFilter(ctx: Context, input: NewFilter) {
  const orgId = await owner(ctx, input.orgId);
  const conditions = await asStored(ctx, input.conditions);
  await assertFilterQuota(ctx, orgId);
  const filter = await SavedFilter.query(ctx.tx).insertAndFetch({
    orgId,
    name: input.name,
    description: input.description ?? null,
    conditions,
    createdBy: ctx.caller.userId,
  });
  return new AuditedJson(asJson(filter), filter);
}

export async function updateFilter(
  ctx: Context,
  id: string,
  { conditions, ...patch }: FilterPatch,
  { hub, filterReferrers }: Parts,
) {
  const filter = await readFilterToChange(ctx, id);
  const changes = omitUndefined({
    ...patch,
    conditions: conditions === undefined ? undefined : await asStored(ctx, conditions),
  });
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  const updated = await patchRecorded(ctx, filter, changes);
  if (conditions !== undefined) {
    for (const { assertAllowed } of filterReferrers) await assertAllowed?.(ctx.tx, filter.orgId);
    ctx.afterCommit(() => hub.events.publish(FILTER_CHANGED, { filterId: id }));
  }
  const faults = conditions === undefined ? await faultsOf(ctx, updated) : [];
  return new AuditedJson(asJson(updated, faults), Object.assign(updated, { changedFields }));
}

export async function deleteFilter(ctx: Context, id: string, { hub, filterReferrers }: Parts) {
  const filter = await readFilterToChange(ctx, id);
  await assertUnused(ctx, id, filterReferrers);
  await filter.$query(ctx.tx).delete();
  ctx.afterCommit(() => hub.events.publish(FILTER_CHANGED, { filterId: id }));
  return new AuditedJson(asJson(filter), filter);
}

/** Locked, so that nothing can start to use the filter while it is deleted. */
async function readFilterToChange(ctx: Context, id: string): Promise<SavedFilter> {
  const filter = await readFilter(ctx, id);
  await assertManageable(ctx, filter.orgId);
  await lockFilter(ctx.tx, id);
  return filter;
}

/** In organization scope the caller's own organization; otherwise the given one (SPEC 4.6). */
async function owner(ctx: Context, given: string | undefined): Promise<string> {
  const { scope, orgId: own } = ctx.caller;
  if (scope === 'organization' && own !== null) return manageable(ctx, own);
  if (given === undefined) {
    throw invalid('body.orgId', 'is required', 'orgId is required for partner scope');
  }
  const orgId = z.uuid().safeParse(given);
  if (!orgId.success) throw invalid('body.orgId', 'must be a UUID');
  await assertOrganizationAccess(ctx, orgId.data);
  return manageable(ctx, orgId.data);
}

async function manageable(ctx: Context, orgId: string): Promise<string> {
  await assertManageable(ctx, orgId);
  return orgId;
}

async function assertFilterQuota(ctx: Context, orgId: string): Promise<void> {
  const count = await accessible(ctx).where('org_id', orgId).resultSize();
  if (count < FILTERS_MAX) return;
  throw new AppError('limit_reached', `Filter limit reached (${FILTERS_MAX}).`);
}

async function asStored(ctx: Context, given: unknown): Promise<string> {
  await assertPatternsCompile(ctx.tx, await checkedConditions(ctx, given, 'body.conditions'));
  return conditionsText(given);
}

const Head = Filter.omit({ conditions: true, faults: true });

/** Uses the stored text of the conditions, because JSON.stringify fails at depths that are allowed. */
function asJson(filter: SavedFilter, faults: readonly Fault[] = []): string {
  const head = JSON.stringify(Head.parse(filter)).slice(0, -1);
  const tail = faults.length === 0 ? '' : `,"faults":${JSON.stringify(faults)}`;
  return `${head},"conditions":${filter.conditions}${tail}}`;
}

export async function previewConditions(ctx: Context, { conditions, ...sample }: PreviewRequest) {
  assertMaySeeDevices(ctx);
  if (sample.orgId !== undefined) await assertOrganizationAccess(ctx, sample.orgId);
  return queryPreview(ctx, await checkedConditions(ctx, conditions, 'body.conditions'), sample);
}

export async function previewFilter(ctx: Context, id: string, limit: number) {
  assertMaySeeDevices(ctx);
  const filter = await readFilter(ctx, id);
  return { ...(await queryPreview(ctx, await conditionsOf(ctx, id), { limit })), filter };
}

/** Permission to read filters does not include permission to see the devices they find. */
function assertMaySeeDevices({ caller }: Context): void {
  if (!holds(caller.permissions, 'devices:read')) {
    throw new AppError('forbidden', 'This also requires the permission devices:read.');
  }
}

/** The result of each condition for one device, in its current state. */
export async function explain(ctx: Context, { conditions: given, filterId, deviceId }: ExplainRequest) {
  assertMaySeeDevices(ctx);
  const conditions = await requestedConditions(ctx, given, filterId);
  const [row] = await selectMatchable(
    visibleDevices(ctx.tx, ctx.caller).where('d.id', deviceId),
    conditions.reads,
  );
  if (row === undefined) throw notFound('Device');
  const device = toMatchable(row);
  const now = clock.now();
  return {
    data: {
      deviceId: device.id,
      matched: conditions.matches(device, now),
      conditions: conditions.explain(device, now, { atMost: EXPLAINED_MAX }),
      ...(conditions.count > EXPLAINED_MAX ? { conditionCount: conditions.count } : {}),
      evaluatedAt: new Date(now),
    },
  };
}

async function requestedConditions(
  ctx: Context,
  given: unknown,
  filterId: string | undefined,
): Promise<Conditions> {
  if ((given === undefined) === (filterId === undefined)) {
    throw invalid(
      'body.filterId',
      'is required if conditions is missing, and not allowed otherwise',
      'Provide exactly one of conditions or filterId.',
    );
  }
  return filterId === undefined
    ? checkedConditions(ctx, given, 'body.conditions')
    : conditionsOf(ctx, filterId);
}
