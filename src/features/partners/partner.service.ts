import { clock } from '../../clock.ts';
import { type Context, assertActsForWholePartner } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { nameOrder, inTenant } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, noFields, notFound } from '../../platform/errors.ts';
import { addressList, contains } from '../../platform/http/client-address.ts';
import { toPage, type PageQuery } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  changedPaths,
  mergeSettings,
  type NewPartner,
  type OwnPartnerPatch,
  type PartnerPatch,
  type CheckPins,
} from './partner.schema.ts';
import { Partner } from './partner.model.ts';

const present = (ctx: Context) => Partner.query(ctx.tx).whereNull('deleted_at');

export async function listPartners(ctx: Context, query: PageQuery) {
  const result = await present(ctx)
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, result);
}

export async function readPartner(ctx: Context, id: string): Promise<Partner> {
  const partner = await present(ctx).findById(id);
  if (partner === undefined) throw notFound('Partner');
  return partner;
}

export async function readOwnPartner(ctx: Context): Promise<Partner> {
  return withAccessibleOrder(ctx, await readPartner(ctx, ownPartnerId(ctx)));
}

/** Made by an administrator, a partner is active at once (SPEC 2.1). */
export async function createPartner(
  ctx: Context,
  input: NewPartner,
  checks: SettingChecks,
): Promise<Partner> {
  assertAllowlistFits(ctx, input.settings?.security?.ipAllowlist, checks, { mayShutOutCaller: true });
  await checks.checkPins(ctx, input.settings?.agentUpdates?.pins);
  const { settings = {}, ...fields } = input;
  return withOwnSlug(
    Partner.query(ctx.tx).insertAndFetch({
      ...omitUndefined(fields),
      settings: mergeSettings({}, settings),
      status: 'active',
    }),
  );
}

export async function updatePartner(ctx: Context, id: string, patch: PartnerPatch, checks: SettingChecks) {
  assertAllowlistFits(ctx, patch.settings?.security?.ipAllowlist, checks, { mayShutOutCaller: true });
  await checks.checkPins(ctx, patch.settings?.agentUpdates?.pins);
  const partner = await lockPartner(ctx, id);
  return change(ctx, partner, patch);
}

export async function updateOwnPartner(ctx: Context, patch: OwnPartnerPatch, checks: SettingChecks) {
  const { force: _force, ...sent } = patch;
  // Each user changes only the part of the order of organizations that they reach.
  const isOfPart = changedPaths(omitUndefined(sent)).every((path) => path === 'settings.organizationOrder');
  if (!isOfPart) assertActsForWholePartner(ctx.caller, 'change the partner and its settings');
  assertAllowlistFits(ctx, patch.settings?.security?.ipAllowlist, checks, {
    mayShutOutCaller: patch.force === true,
  });
  await checks.checkPins(ctx, patch.settings?.agentUpdates?.pins);
  const partner = await lockPartner(ctx, ownPartnerId(ctx));
  return change(ctx, partner, patch);
}

/** Soft: the record stays, out of every list; it can be neither changed nor deleted again. */
export async function deletePartner(ctx: Context, id: string) {
  const partner = await lockPartner(ctx, id);
  await partner.$query(ctx.tx).patch({ deletedAt: clock.date() });
  return { success: true as const, partner };
}

export function ownPartnerId(ctx: Context): string {
  if (ctx.caller.partnerId === null) throw new AppError('forbidden', 'This needs partner scope.');
  return ctx.caller.partnerId;
}

/** The facts that decide whether settings fit this server. */
export interface SettingChecks {
  clientAddressIsKnown: boolean;
  checkPins: CheckPins;
}

/** A list that could not be enforced, or that would shut out the very address it comes from, is not stored. */
function assertAllowlistFits(
  ctx: Context,
  allowlist: readonly string[] | undefined,
  { clientAddressIsKnown }: SettingChecks,
  { mayShutOutCaller }: { mayShutOutCaller: boolean },
): void {
  if (allowlist === undefined || allowlist.length === 0) return;
  if (!clientAddressIsKnown) {
    throw new AppError(
      'proxy_trust_required',
      'An IP allowlist needs TRUST_PROXY_HEADERS and TRUSTED_PROXY_CIDRS to be set on the server.',
    );
  }
  const { ip, trusted, unreadable } = ctx.client;
  if (!mayShutOutCaller && unreadable !== undefined) {
    throw new AppError(
      'conflict',
      `The proxy names your address in ${unreadable.header} in a form that cannot be read, so any list would refuse it. Send "force": true to take this one all the same.`,
    );
  }
  if (!mayShutOutCaller && trusted && !contains(addressList(allowlist), ip)) {
    throw new AppError(
      'conflict',
      `This list does not hold ${ip}, the address you are calling from. Send "force": true to take it all the same.`,
    );
  }
}

/** Settings are read, merged and written, so two changes at once take turns. */
async function lockPartner(ctx: Context, id: string): Promise<Partner> {
  const partner = await present(ctx).findById(id).forNoKeyUpdate();
  if (partner === undefined) throw notFound('Partner');
  return partner;
}

async function change(ctx: Context, partner: Partner, { force: _force, ...patch }: PartnerPatch) {
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  const { settings, ...fields } = changes;
  const order = settings?.organizationOrder;
  const known = order === undefined ? {} : { organizationOrder: await orderToStore(ctx, partner, order) };
  const merged =
    settings === undefined ? {} : { settings: mergeSettings(partner.settings, { ...settings, ...known }) };
  const updated = await withOwnSlug(patchRecorded(ctx, partner, { ...fields, ...merged }));
  return Object.assign(await withAccessibleOrder(ctx, updated), { changedFields: changedPaths(changes) });
}

const withOwnSlug = <T>(work: PromiseLike<T>) =>
  namingConflict(work, 'partners_slug_key', 'body.slug', 'Another partner has this slug.');

/** The order in which a partner's organizations are listed: each user writes and sees the part that they can access. */

/**
 * Merges the order that a user wants for the organizations they can access with the stored one: all others follow, in
 * their stored order.
 */
export function mergeOrder(
  stored: readonly string[],
  wanted: readonly string[],
  accessible: ReadonlySet<string>,
): string[] {
  const ofUser = wanted.filter((id) => accessible.has(id));
  const ofOthers = stored.filter((id) => !accessible.has(id));
  return [...new Set([...ofUser, ...ofOthers])];
}

/** The stored order after the caller has sent one. Organizations that do not exist are dropped. */
async function orderToStore(ctx: Context, partner: Partner, sent: readonly string[]): Promise<string[]> {
  const stored = storedOrder(partner);
  return mergeOrder(stored, sent, await accessibleOf(ctx, partner.id, [...sent, ...stored]));
}

/** A copy of the partner with only the part of the order that the caller can access. */
async function withAccessibleOrder(ctx: Context, partner: Partner): Promise<Partner> {
  const kept = storedOrder(partner);
  if (kept.length === 0) return partner;
  const accessible = await accessibleOf(ctx, partner.id, kept);
  const shown = partner.$clone();
  shown.settings = { ...partner.settings, organizationOrder: kept.filter((id) => accessible.has(id)) };
  return shown;
}

export function storedOrder({ settings }: Partner): string[] {
  const { organizationOrder: order } = settings;
  return Array.isArray(order) ? order.filter((id) => typeof id === 'string') : [];
}

async function accessibleOf(
  ctx: Context,
  partnerId: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const found = await ctx
    .tx('organizations')
    .where({ partner_id: partnerId })
    .whereNull('deleted_at')
    .whereRaw(inTenant(ctx.caller, 'id'))
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .select<{ id: string }[]>('id');
  return new Set(found.map(({ id }) => id));
}
