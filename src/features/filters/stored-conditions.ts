import { type Context, holds } from '../../platform/context.ts';
import { type Statement, inTenant } from '../../platform/db/statement.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import {
  type Conditions,
  conditionsText,
  customKey,
  type CustomKinds,
  type Fault,
  invalidConditions,
  parseConditions,
  type Reference,
} from '../conditions/index.ts';
import { customFieldKinds, definitionsOf } from '../custom-fields/index.ts';
import { SavedFilter } from './filter.model.ts';

type Reader = Pick<Context, 'tx' | 'caller'>;

export const accessible = (ctx: Reader) =>
  SavedFilter.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'saved_filters.org_id'));

export async function readFilter(ctx: Reader, id: string): Promise<SavedFilter> {
  const filter = await accessible(ctx).findById(id);
  if (filter === undefined) throw notFound('Filter');
  return filter;
}

/** The conditions of a saved filter. Throws `validation_failed` with paths if they refer to something that is gone. */
export async function conditionsOf(ctx: Reader, filterId: string): Promise<Conditions> {
  assertMayUse(ctx);
  return checkedConditions(ctx, JSON.parse((await readFilter(ctx, filterId)).conditions), 'conditions');
}

/**
 * The conditions of a filter, or the given ones, for a live subscription.
 * @returns the conditions, and a key that is equal for equivalent conditions
 */
export async function conditionsToFollow(
  ctx: Reader,
  { filterId, conditions: given }: { filterId?: string | undefined; conditions?: unknown },
): Promise<{ key: string; conditions: Conditions }> {
  assertMayUse(ctx);
  const asked: unknown =
    filterId === undefined ? given : JSON.parse((await readFilter(ctx, filterId)).conditions);
  const kinds = await customFieldKinds(ctx);
  const conditions = conditionsOrThrow(await check(ctx, asked, 'conditions', kinds));
  const readAs = [...conditions.customFields].sort().map((key) => `${key} ${kinds.get(key) ?? 'string'}`);
  return { key: JSON.stringify([readAs, conditionsText(asked)]), conditions };
}

export function assertMayUse({ caller }: Reader): void {
  if (holds(caller.permissions, 'filters:read')) return;
  throw new AppError('forbidden', 'Using a filter requires the permission filters:read.');
}

/** Throws `validation_failed` with all faults. */
export async function checkedConditions(
  ctx: Reader,
  given: unknown,
  root: string,
  kinds?: CustomKinds,
): Promise<Conditions> {
  return conditionsOrThrow(await check(ctx, given, root, kinds));
}

function conditionsOrThrow(checked: Conditions | Fault[]): Conditions {
  if (Array.isArray(checked)) throw invalidConditions(checked);
  return checked;
}

/** The faults that a filter has developed since it was saved. */
export async function faultsOf(ctx: Reader, filter: SavedFilter): Promise<Fault[]> {
  const checked = await check(ctx, JSON.parse(filter.conditions), 'conditions');
  return Array.isArray(checked) ? checked : [];
}

async function check(
  ctx: Reader,
  given: unknown,
  root: string,
  kinds?: CustomKinds,
): Promise<Conditions | Fault[]> {
  const parsed =
    kinds === undefined
      ? await parsedBy(ctx, given, root)
      : parseConditions(given, { root, customKinds: kinds });
  if (!parsed.ok) return parsed.faults;
  const lost = await lostReferences(ctx, parsed.conditions.references(root));
  return lost.length > 0 ? lost : parsed.conditions;
}

/** Reads the definitions of custom fields only if the conditions use any. */
async function parsedBy(ctx: Reader, given: unknown, root: string) {
  const customKinds: CustomKinds = namesCustomField(given) ? await customFieldKinds(ctx) : new Map();
  return parseConditions(given, { root, customKinds });
}

/** Works on unvalidated conditions of any depth. */
function namesCustomField(given: unknown): boolean {
  const open = [given];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    if ('field' in next && typeof next.field === 'string' && customKey(next.field) !== undefined) return true;
    if ('conditions' in next && Array.isArray(next.conditions)) {
      for (const item of next.conditions) open.push(item);
    }
  }
  return false;
}

/** Filters as dynamic groups use them: within their organization, whichever person saved them. */

interface FilterKey {
  orgId: string;
  filterId: string;
}

const customKindsOf = async (tx: Tx, orgId: string) =>
  (await definitionsOf({ tx }, [orgId])).get(orgId) ?? new Map();

const storedFilter = (tx: Tx, { orgId, filterId }: FilterKey) =>
  tx('saved_filters').where({ org_id: orgId, id: filterId });

/** The organization of a filter; undefined if the filter does not exist, or is out of reach of the transaction. */
export async function organizationOfFilter(tx: Tx, filterId: string): Promise<string | undefined> {
  const row = await tx('saved_filters').where('id', filterId).first<{ org_id: string } | undefined>('org_id');
  return row?.org_id;
}

/**
 * A filter and when it was last changed. Undefined if it does not exist; its conditions are undefined if they no longer
 * fit the custom fields of its organization.
 */
export async function filterWithin(
  tx: Tx,
  key: FilterKey,
): Promise<{ conditions: Conditions | undefined; updatedAt: Date } | undefined> {
  const row = await storedFilter(tx, key).first<{ conditions: string; updated_at: Date } | undefined>(
    'conditions',
    'updated_at',
  );
  if (row === undefined) return undefined;
  const customKinds = await customKindsOf(tx, key.orgId);
  const parsed = parseConditions(JSON.parse(row.conditions), { customKinds });
  return { conditions: parsed.ok ? parsed.conditions : undefined, updatedAt: row.updated_at };
}

/** Undefined if the filter does not exist or no longer fits the custom fields of its organization. */
export async function conditionsWithin(tx: Tx, key: FilterKey): Promise<Conditions | undefined> {
  return (await filterWithin(tx, key))?.conditions;
}

/**
 * The conditions of a filter for a group that the caller creates or changes. The filter is locked against deletion until
 * the end of the transaction. Returns undefined if it does not exist in the organization; throws `validation_failed` if
 * its conditions are no longer valid.
 */
export async function conditionsForGroup(ctx: Context, key: FilterKey): Promise<Conditions | undefined> {
  const row = await storedFilter(ctx.tx, key)
    .forShare()
    .first<{ conditions: string } | undefined>('conditions');
  if (row === undefined) return undefined;
  assertMayUse(ctx);
  const customKinds = await customKindsOf(ctx.tx, key.orgId);
  return checkedConditions(ctx, JSON.parse(row.conditions), 'conditions', customKinds);
}

/**
 * The conditions, by filter id, of those filters that refer to groups. Filters that cannot be parsed are left out: they
 * find no devices.
 * @param known  filters that are already parsed
 */
export async function conditionsNamingGroups(
  tx: Tx,
  { orgId, filterIds }: { orgId: string; filterIds: readonly string[] },
  known: ReadonlyMap<string, Conditions>,
): Promise<Map<string, Conditions>> {
  const found = new Map([...known].filter(([id]) => filterIds.includes(id)));
  const rows = await tx('saved_filters')
    .where('org_id', orgId)
    .whereRaw('id = any(?::uuid[])', [filterIds.filter((id) => !known.has(id))])
    .whereLike('conditions', '%groupId%')
    .select<{ id: string; conditions: string }[]>('id', 'conditions');
  for (const { id, conditions } of rows) {
    const parsed = parseConditions(JSON.parse(conditions), { customKinds: new Map() });
    if (parsed.ok) found.set(id, parsed.conditions);
  }
  return found;
}

const WHAT = { orgId: 'Organization', siteId: 'Site', groupId: 'Group' } as const;

const FAULTS_MAX = 100;

/** Reports ids that are out of the caller's reach in the same words as ids that do not exist. */
async function lostReferences(ctx: Reader, references: readonly Reference[]): Promise<Fault[]> {
  if (references.length === 0) return [];
  const ids = (kind: Reference['kind']) => [
    ...new Set(references.filter((one) => one.kind === kind).map(({ id }) => id)),
  ];
  const reach = (column: string) => inTenant(ctx.caller, column);
  const statement: Statement = {
    name: `things_named_${ctx.caller.scope}`,
    text: `select id from organizations where id = any($1::uuid[]) and deleted_at is null and ${reach('id')}
      union all select id from sites where id = any($2::uuid[]) and ${reach('org_id')}
      union all select id from device_groups where id = any($3::uuid[]) and ${reach('org_id')}`,
  };
  const rows = await runPrepared<{ id: string }>(ctx.tx, statement, [
    ids('orgId'),
    ids('siteId'),
    ids('groupId'),
  ]);
  const there = new Set(rows.map(({ id }) => id));
  return references
    .filter(({ id }) => !there.has(id))
    .slice(0, FAULTS_MAX)
    .map(({ kind, id, path }) => ({ path: path(), message: `${WHAT[kind]} does not exist: ${id}` }));
}
