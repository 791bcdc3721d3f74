import { clock } from '../../clock.ts';
import type { RateLimiter, RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { type Encryptor, SealBrokenError, sealContext } from '../../platform/secrets/sealed.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { assertManageable, assertOrganizationAccess, Organization } from '../organizations/index.ts';
import { lockOwner, ownerOf } from '../owners/index.ts';
import {
  CHANNEL_FIELDS,
  channelFaults,
  type ChannelDetails,
  type ChannelPatch,
  type ChannelQuery,
  type ChannelStatus,
  type ChannelType,
  type NewChannel,
} from './channel.schema.ts';
import type { MessageContent } from './payloads/message.ts';
import { NotificationChannel } from './notification.model.ts';
import {
  accessibleChannels,
  accessibleChannelsByName,
  insertTest,
  policyNaming,
  recordChannelOutcome,
} from './notification.queries.ts';
import { send, type SendParts } from './send.ts';

/** The number of channels of one organization, and of those of one partner itself. */
export const CHANNELS_MAX = 50;
const NAME_TAKEN = 'Another channel of the same owner has this name.';

/** For `npm run rotate-secrets`. */
export const SEALED_CHANNEL_SECRET: SealedColumn = {
  table: 'notification_channels',
  column: 'sealed_secret',
  id: 'id',
};

const contextOf = (id: string) => sealContext('notification_channels', 'sealed_secret', id);

/** The secret of a channel; null if it has none, undefined if it cannot be opened. */
export function openSecret(
  encryptor: Encryptor,
  { id, sealedSecret }: Pick<NotificationChannel, 'id' | 'sealedSecret'>,
): string | null | undefined {
  if (sealedSecret === null) return null;
  try {
    return encryptor.open(sealedSecret, contextOf(id)).text;
  } catch (error) {
    if (error instanceof SealBrokenError) return undefined;
    throw error;
  }
}

export async function listChannels(ctx: Context, query: ChannelQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const channels = accessibleChannelsByName(ctx).page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void channels.where('org_id', query.orgId);
  if (query.ofPartner !== undefined) void channels.whereNull('org_id');
  const { results, total } = await channels;
  return toPage(query, { results: results.map(toChannelResponse), total });
}

export async function findChannel(
  ctx: Pick<Context, 'tx' | 'caller'>,
  id: string,
): Promise<NotificationChannel> {
  const channel = await accessibleChannels(ctx).findById(id);
  if (channel === undefined) throw notFound('Notification channel');
  return channel;
}

async function lockChannel(ctx: Context, id: string): Promise<NotificationChannel> {
  const channel = await accessibleChannels(ctx).findById(id).forNoKeyUpdate();
  if (channel === undefined) throw notFound('Notification channel');
  if (channel.orgId !== null) await assertManageable(ctx, channel.orgId);
  return channel;
}

export async function createChannel(
  ctx: Context,
  { orgId, secret, ...input }: NewChannel,
  encryptor: Encryptor,
) {
  const owner = await ownerOf(ctx, orgId, 'create notification channels of the partner');
  await lockOwner(ctx.tx, owner);
  const present = await NotificationChannel.query(ctx.tx)
    .where({ partner_id: owner.partnerId, org_id: owner.orgId })
    .resultSize();
  if (present >= CHANNELS_MAX) {
    throw new AppError('limit_reached', `Notification channel limit reached (${CHANNELS_MAX}).`);
  }
  const id = newId();
  const channel = await named(
    NotificationChannel.query(ctx.tx).insertAndFetch({
      ...input,
      ...owner,
      id,
      sealedSecret: secret === undefined ? null : encryptor.seal(secret, contextOf(id)),
      createdBy: ctx.caller.userId,
    }),
  );
  return toChannelResponse(channel);
}

export async function updateChannel(ctx: Context, id: string, patch: ChannelPatch, encryptor: Encryptor) {
  const channel = await lockChannel(ctx, id);
  const { secret, ...changes } = omitUndefined(patch);
  if (Object.keys(patch).length === 0) throw noFields();
  const details = changes.details ?? channel.details;
  assertSecretStays(channel, details, patch);
  const stored = secret === undefined ? openSecret(encryptor, channel) : secret;
  for (const { path, message } of channelFaults(channel.type, details, stored ?? undefined)) {
    // One that cannot be opened any more is reported when it is used.
    if (stored === undefined && path[0] === 'secret') continue;
    throw invalid(`body.${path.join('.')}`, message);
  }
  const before = recorded(channel);
  const isElsewhere = secret !== undefined || changes.details !== undefined;
  const updated = await named(
    channel.$query(ctx.tx).patchAndFetch({
      ...changes,
      ...(secret === undefined
        ? {}
        : { sealedSecret: secret === null ? null : encryptor.seal(secret, contextOf(id)) }),
      // The new receiver has not failed yet.
      ...(isElsewhere ? { failingSince: null, lastError: null, lastSuccessAt: null, pausedUntil: null } : {}),
    }),
  );
  ctx.recordChange(before, recorded(updated));
  return toChannelResponse(updated);
}

/** A secret must not be sent to an address that whoever knows it did not choose. */
function assertSecretStays(
  { type, details: before, sealedSecret }: NotificationChannel,
  details: ChannelDetails,
  { secret }: ChannelPatch,
): void {
  if (sealedSecret === null || secret !== undefined) return;
  if (CHANNEL_FIELDS[type].secret === 'none') return;
  if (before.url === details.url && before.server === details.server) return;
  throw invalid('body.secret', 'is needed again when the address of the receiver changes');
}

/** What the audit trail shows. Addresses whose path may be secret are shown by host and hash; the secret only as changed. */
const recorded = ({ name, details: { url, server, ...details }, sealedSecret }: NotificationChannel) => ({
  name,
  details: {
    ...details,
    ...(url === undefined ? {} : { url: recordedUrl(url) }),
    ...(server === undefined ? {} : { server: recordedUrl(server) }),
  },
  sealedSecret,
});

function recordedUrl(url: string): string {
  const host = URL.canParse(url) ? new URL(url).host : 'unknown';
  return `${host} (SHA-256 ${tokenHash(url).slice(0, 8)}…)`;
}

export async function deleteChannel(ctx: Context, id: string) {
  const channel = await lockChannel(ctx, id);
  const policy = await policyNaming(ctx.tx, channel);
  if (policy !== undefined) {
    throw new AppError('conflict', `The policy "${policy}" uses this channel. Take it out there first.`);
  }
  await channel.$query(ctx.tx).delete();
  return { success: true as const, channel };
}

export function toChannelResponse(channel: NotificationChannel) {
  const {
    id,
    orgId,
    partnerId,
    name,
    type,
    details,
    sealedSecret,
    lastError,
    failingSince,
    lastSuccessAt,
    pausedUntil,
    createdBy,
    createdAt,
    updatedAt,
  } = channel;
  return {
    id,
    orgId,
    partnerId,
    name,
    type,
    details,
    hasSecret: sealedSecret !== null,
    status: statusOf(channel),
    lastError,
    failingSince,
    lastSuccessAt,
    pausedUntil: pausedUntil !== null && pausedUntil > clock.date() ? pausedUntil : null,
    createdBy,
    createdAt,
    updatedAt,
  };
}

function statusOf({ failingSince, lastSuccessAt }: NotificationChannel): ChannelStatus {
  if (failingSince !== null) return 'failing';
  return lastSuccessAt === null ? 'untested' : 'ok';
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'notification_channels_name', 'body.name', NAME_TAKEN);

/** Refuses an address to which nothing would be sent. It is checked again before each request. */
export async function checkReceiver(
  outbound: Pick<GuardedFetch, 'assertPermitted'>,
  type: ChannelType,
  { details, secret }: { details?: ChannelDetails | undefined; secret?: string | null | undefined },
): Promise<void> {
  const isSecretUrl = type === 'slack' || type === 'teams' || type === 'discord';
  const urls = {
    'body.secret': isSecretUrl ? (secret ?? undefined) : undefined,
    'body.details.url': details?.url,
    'body.details.server': details?.server,
  };
  for (const [field, url] of Object.entries(urls)) {
    if (url === undefined) continue;
    try {
      await outbound.assertPermitted(url);
    } catch (error) {
      if (error instanceof OutboundError) throw invalid(field, error.message);
      throw error;
    }
  }
}

/** Limits the tests of each channel, so that they cannot be used to flood a receiver. */
export const channelTestLimit = (limits: RateLimits): RateLimiter =>
  limits.limiter('notification-channel-test', { points: 10, seconds: 60 });

export interface TestParts extends SendParts {
  channelTestLimit: Pick<RateLimiter, 'take'>;
  secrets: Encryptor;
}

/** Sends a message at once and returns what came of it. Nothing is open while it waits for the receiver. */
export async function sendTest(ctx: DetachedContext, id: string, parts: TestParts & { signal: AbortSignal }) {
  const { channel, organization } = await ctx.withTenant(async (inTenant) => {
    const found = await lockChannel(inTenant, id);
    const owner =
      found.orgId === null ? undefined : await Organization.query(inTenant.tx).findById(found.orgId);
    return { channel: found, organization: owner?.name ?? null };
  });
  await parts.channelTestLimit.take(id);
  const messageId = newId();
  const begun = clock.monotonic();
  const outcome = await send(
    parts,
    {
      id: channel.id,
      partnerId: channel.partnerId,
      type: channel.type,
      details: channel.details,
      secret: openSecret(parts.secrets, channel),
    },
    { id: messageId, at: clock.date(), content: testContent(messageId, channel, organization) },
    parts.signal,
  );
  return { channel, messageId, outcome, durationMs: Math.round(clock.monotonic() - begun) };
}

function testContent(
  id: string,
  { name, orgId }: NotificationChannel,
  organization: string | null,
): MessageContent {
  return {
    reason: 'test',
    groupId: id,
    title: 'Test message',
    threadTitle: 'Test message',
    severity: 'info',
    count: 0,
    alerts: [],
    orgId,
    organization,
    policy: null,
    text: `Alerts can reach the channel "${name}". Nothing is wrong.`,
  };
}

/** Records a test in the channel, and in the log of the organization that the channel belongs to. */
export async function recordTest(
  ctx: Context,
  { channel, messageId, outcome, durationMs }: Awaited<ReturnType<typeof sendTest>>,
) {
  // It may have been changed or deleted meanwhile.
  const present = await accessibleChannels(ctx).findById(channel.id).forNoKeyUpdate();
  if (present !== undefined) {
    await recordChannelOutcome(ctx.tx, channel.id, outcome);
    if (channel.orgId !== null) {
      await insertTest(ctx.tx, channel, channel.orgId, { id: messageId, outcome });
    }
  }
  return {
    ok: outcome.ok,
    responseStatus: outcome.responseStatus,
    durationMs,
    error: outcome.ok ? null : outcome.error,
    channel,
  };
}
