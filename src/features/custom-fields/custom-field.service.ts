import { removeValues, readDefinitions, countValues } from './custom-field.queries.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { type Statement, inTenant } from '../../platform/db/statement.ts';
import { runPrepared } from '../../platform/db/transaction.ts';
import { AppError, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { CUSTOM_FIELD_CHANGED, CustomField } from './custom-field.model.ts';
import type {
  CustomFieldPatch,
  CustomFieldQuery,
  CustomFieldType,
  NewCustomField,
  Definitions,
} from './custom-field.schema.ts';

/** Publishes that a field has changed to those that evaluate conditions on it. */
type Hub = Pick<DeviceHub, 'events'>;

const MAX_FIELDS = 200;

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CustomField.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'custom_fields.org_id'));

export async function listCustomFields(ctx: Context, query: CustomFieldQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const fields = accessible(ctx)
    .orderBy(['key', 'id'])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void fields.where('org_id', query.orgId);
  return toPage(query, await fields);
}

export async function readCustomField(ctx: Context, id: string): Promise<CustomField> {
  const field = await accessible(ctx).findById(id);
  if (field === undefined) throw notFound('Custom field');
  return field;
}

export async function createCustomField(ctx: Context, input: NewCustomField, hub: Hub): Promise<CustomField> {
  await assertOrganizationAccess(ctx, input.orgId);
  await assertManageable(ctx, input.orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await lockOrganization(ctx.tx, input.orgId);
  const present = await CustomField.query(ctx.tx).where('org_id', input.orgId).resultSize();
  if (present >= MAX_FIELDS) {
    throw new AppError('limit_reached', `Custom field limit reached (${MAX_FIELDS}).`);
  }
  const field = await namingConflict(
    CustomField.query(ctx.tx).insertAndFetch({ ...omitUndefined(input), createdBy: ctx.caller.userId }),
    'custom_fields_key',
    'body.key',
    'Another custom field of this organization has this key.',
  );
  publishChange(ctx, field, hub);
  return field;
}

export async function updateCustomField(ctx: Context, id: string, patch: CustomFieldPatch, hub: Hub) {
  const field = await readFieldToChange(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  if (changes.type !== undefined && changes.type !== field.type) {
    const devices = await countValues(ctx, field);
    if (devices > 0) {
      throw new AppError(
        'conflict',
        `${devices} device${devices === 1 ? ' has a value' : 's have values'} of type ${field.type}. Remove them first.`,
        { details: { devices } },
      );
    }
    publishChange(ctx, field, hub);
  }
  return Object.assign(await patchRecorded(ctx, field, changes), { changedFields });
}

/** Deletes a field and its value on each device. */
export async function deleteCustomField(
  ctx: Context,
  id: string,
  hub: Hub & Pick<DeviceHub, 'devicesChanged'>,
) {
  const field = await readFieldToChange(ctx, id);
  const changed = await removeValues(ctx.tx, field);
  await field.$query(ctx.tx).delete();
  publishChange(ctx, field, hub);
  ctx.afterCommit(() => hub.devicesChanged(changed));
  return { success: true as const, devicesChanged: changed.length, field };
}

/**
 * The definitions of organizations, by organization and key. They stay as they are until the end of the transaction:
 * what is checked by them is stored under them.
 */
export async function definitionsToStoreBy(
  ctx: Pick<Context, 'tx'>,
  orgIds: readonly string[],
): Promise<ReadonlyMap<string, Definitions>> {
  return readDefinitions(ctx, orgIds, 'for share');
}

/** The same for reading by them: nothing is locked, so a change of one waits for no reader. */
export async function definitionsOf(
  ctx: Pick<Context, 'tx'>,
  orgIds: readonly string[],
): Promise<ReadonlyMap<string, Definitions>> {
  return readDefinitions(ctx, orgIds, '');
}

/**
 * Of which type each key is in the organizations that the caller reaches, or in those of them that are named. If they
 * do not agree it is a text.
 */
export async function customFieldKinds(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  orgIds: readonly string[] | null = null,
): Promise<Definitions> {
  const statement: Statement = {
    name: `custom_field_kinds_${caller.scope}`,
    text: `select distinct key, type from custom_fields
      where ${inTenant(caller, 'org_id')} and ($1::uuid[] is null or org_id = any($1))`,
  };
  const fields = await runPrepared<Pick<CustomField, 'key' | 'type'>>(tx, statement, [orgIds]);
  const kinds = new Map<string, CustomFieldType>();
  for (const { key, type } of fields) kinds.set(key, kinds.has(key) ? 'string' : type);
  return kinds;
}

/** Locked against requests that store values by it at this moment. */
async function readFieldToChange(ctx: Context, id: string): Promise<CustomField> {
  const field = await accessible(ctx).findById(id).forUpdate();
  if (field === undefined) throw notFound('Custom field');
  await assertManageable(ctx, field.orgId);
  return field;
}

function publishChange(ctx: Context, { orgId, key }: CustomField, hub: Hub): void {
  ctx.afterCommit(() => hub.events.publish(CUSTOM_FIELD_CHANGED, { orgId, key }));
}
