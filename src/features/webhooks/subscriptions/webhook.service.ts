import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { assertActsForWholePartner } from '../../../platform/context.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { exceeds } from '../../roles/index.ts';
import { EVENT_TYPES, type EventTypeName, knownTypes } from '../events/catalogue.ts';
import { endDisabledAlert, failWaiting } from './disabled.ts';
import { newSigningSecret, sealAsPrevious, sealSecret } from '../requests/signing-secret.ts';
import { Webhook } from './webhook.model.ts';
import type { NewWebhook, Rotation, WebhookPatch, WebhookQuery, WebhookStatus } from './webhook.schema.ts';

/** Of one organization, and of one partner beside those of its organizations. */
export const WEBHOOKS_MAX = 20;
const OVERLAP_HOURS = 24;
const NAME_TAKEN = 'Another webhook of the same owner has this name.';

/** A webhook of a partner carries the events of all its organizations: it is for those who see all of them. */
const accessible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  Webhook.query(tx).where((either) => {
    void either.whereRaw(inTenant(caller, 'webhooks.org_id'));
    if (caller.partnerId !== null && caller.orgAccess === 'all') {
      void either.orWhere({ 'webhooks.partner_id': caller.partnerId, 'webhooks.org_id': null });
    }
  });

export async function listWebhooks(ctx: Context, query: WebhookQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(shownWebhook), total });
}

export async function findWebhook(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<Webhook> {
  const webhook = await accessible(ctx).findById(id);
  if (webhook === undefined) throw notFound('Webhook');
  return webhook;
}

export async function findToChange(ctx: Context, id: string): Promise<Webhook> {
  const webhook = await accessible(ctx).findById(id).forUpdate();
  if (webhook === undefined) throw notFound('Webhook');
  if (webhook.orgId !== null) await assertManageable(ctx, webhook.orgId);
  return webhook;
}

export async function createWebhook(ctx: Context, { orgId, ...input }: NewWebhook, sealer: Sealer) {
  const owner = await ownerOf(ctx, orgId);
  assertMayReceive(ctx, input.eventTypes, owner.orgId);
  await assertRoom(ctx, owner);
  const id = newId();
  const secret = newSigningSecret();
  const webhook = await named(
    Webhook.query(ctx.tx).insertAndFetch({
      ...omitUndefined(input),
      ...owner,
      id,
      sealedSecret: sealSecret(sealer, id, secret),
      createdBy: ctx.caller.userId,
    }),
  );
  return { ...shownWebhook(webhook), secret };
}

interface Owner {
  partnerId: string;
  orgId: string | null;
}

async function ownerOf(ctx: Context, orgId: string | undefined): Promise<Owner> {
  const { caller, tx } = ctx;
  const own = orgId ?? caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    await assertManageable(ctx, own);
    const { partnerId } = await tx('organizations')
      .where('id', own)
      .first<{ partnerId: string }>({ partnerId: 'partner_id' });
    return { partnerId, orgId: own };
  }
  if (caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(caller, 'create partner-wide webhooks');
  return { partnerId: caller.partnerId, orgId: null };
}

/** A person who decides where events are sent could read them there, and therefore must be allowed to read them. */
function assertMayReceive(
  { caller }: Pick<Context, 'caller'>,
  eventTypes: readonly EventTypeName[],
  orgId: string | null,
): void {
  const types = knownTypes(eventTypes).map((name) => ({ name, ...EVENT_TYPES[name] }));
  const foreign = types.find((type) => 'isOfPartner' in type && orgId !== null);
  if (foreign !== undefined) {
    throw invalid('body.eventTypes', `can have ${foreign.name} only without an organization`);
  }
  const missing = exceeds(caller.permissions, new Set(types.map(({ permission }) => permission)));
  if (missing.length > 0) {
    throw new AppError(
      'forbidden',
      `You cannot send events that you may not read yourself: ${missing.join(', ')} is needed.`,
    );
  }
}

/** Serialized by a lock on the owner, so that the limit holds. */
async function assertRoom({ tx }: Context, { partnerId, orgId }: Owner): Promise<void> {
  const [table, id] = orgId === null ? ['partners', partnerId] : ['organizations', orgId];
  await tx.raw('select from ?? where id = ? for no key update', [table, id]);
  const present = await Webhook.query(tx).where({ partner_id: partnerId, org_id: orgId }).resultSize();
  if (present >= WEBHOOKS_MAX) {
    throw new AppError('limit_reached', `Webhook limit reached (${WEBHOOKS_MAX}).`);
  }
}

export async function updateWebhook(ctx: Context, id: string, patch: WebhookPatch) {
  const webhook = await findToChange(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  const { eventTypes = webhook.eventTypes, enabled = webhook.enabled } = changes;
  if (changes.eventTypes !== undefined || changes.url !== undefined) {
    assertMayReceive(ctx, eventTypes, webhook.orgId);
  }
  const before = recorded(webhook);
  const updated = await named(
    webhook.$query(ctx.tx).patchAndFetch({
      ...changes,
      ...(enabled && !webhook.enabled ? AS_NEW : {}),
      // The new receiver has not failed yet.
      ...(changes.url !== undefined && changes.url !== webhook.url ? { pausedUntil: null } : {}),
    }),
  );
  if (enabled && !webhook.enabled) await endDisabledAlert(ctx.tx, webhook);
  if (!enabled && webhook.enabled) await failWaiting(ctx.tx, id);
  ctx.recordChange(before, recorded(updated));
  return { ...shownWebhook(updated), changedFields };
}

const AS_NEW = {
  disabledReason: null,
  alertedOrgId: null,
  failures: 0,
  failingSince: null,
  pausedUntil: null,
} as const;

const recorded = ({ name, url, eventTypes, enabled }: Webhook) => ({
  name,
  url: recordedUrl(url),
  eventTypes,
  enabled,
});

/** For the audit trail: the host, and a mark of the whole, because the path often is a secret of the receiver. */
export const recordedUrl = (url: string): string =>
  `${new URL(url).host} (SHA-256 ${tokenHash(url).slice(0, 8)}…)`;

export async function deleteWebhook(ctx: Context, id: string) {
  const webhook = await findToChange(ctx, id);
  await webhook.$query(ctx.tx).delete();
  await endDisabledAlert(ctx.tx, webhook);
  return { success: true as const, webhook };
}

/** A new secret. The old one signs beside it for a while, so that the receiver can change over without a gap. */
export async function rotateSecret(
  ctx: Context,
  id: string,
  { overlapHours = OVERLAP_HOURS }: Rotation,
  sealer: Sealer,
) {
  const webhook = await findToChange(ctx, id);
  assertMayReceive(ctx, webhook.eventTypes, webhook.orgId);
  const secret = newSigningSecret();
  const isKept = overlapHours > 0;
  const { sealedSecret, previousSecretUntil } = webhook;
  const updated = await webhook.$query(ctx.tx).patchAndFetch({
    sealedSecret: sealSecret(sealer, id, secret),
    sealedPreviousSecret: isKept ? sealAsPrevious(sealer, webhook) : null,
    previousSecretUntil: isKept ? new Date(clock.now() + overlapHours * 3_600_000) : null,
  });
  // Shown as changed, without either secret.
  ctx.recordChange(
    { sealedSecret, previousSecretUntil },
    { sealedSecret: updated.sealedSecret, previousSecretUntil: updated.previousSecretUntil },
  );
  return { ...shownWebhook(updated), secret };
}

export function shownWebhook(webhook: Webhook) {
  const {
    id,
    orgId,
    partnerId,
    name,
    url,
    eventTypes,
    enabled,
    disabledReason,
    failures,
    failingSince,
    lastSuccessAt,
    previousSecretUntil,
    createdBy,
    createdAt,
    updatedAt,
  } = webhook;
  return {
    id,
    orgId,
    partnerId,
    name,
    url,
    eventTypes: knownTypes(eventTypes),
    enabled,
    status: statusOf(webhook),
    disabledReason,
    failures,
    failingSince,
    lastSuccessAt,
    previousSecretUntil:
      previousSecretUntil !== null && previousSecretUntil > clock.date() ? previousSecretUntil : null,
    createdBy,
    createdAt,
    updatedAt,
  };
}

function statusOf({ enabled, disabledReason, failures, pausedUntil }: Webhook): WebhookStatus {
  if (!enabled) return disabledReason === null ? 'disabled' : 'disabled_by_server';
  if (pausedUntil !== null && pausedUntil > clock.date()) return 'paused';
  return failures > 0 ? 'failing' : 'active';
}

const named = <T>(query: PromiseLike<T>) => namingConflict(query, 'webhooks_name', 'body.name', NAME_TAKEN);
