import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const ChannelType = z.enum(['email', 'slack', 'teams', 'discord', 'pagerduty', 'ntfy', 'webhook']);
export type ChannelType = z.infer<typeof ChannelType>;

export const ChannelStatus = z.enum(['ok', 'failing', 'untested']);
export type ChannelStatus = z.infer<typeof ChannelStatus>;

const url = text(2048);
const Topic = text(64).regex(/^[\w-]+$/, 'must have letters, digits, dashes and underscores only');

/** Where a channel leads, without what is secret of it. Which fields a type has: `CHANNEL_FIELDS`. */
export const ChannelDetails = z.strictObject({
  address: EmailAddress.optional().describe('`email`: the address.'),
  url: url
    .optional()
    .describe(
      '`webhook`: where events are sent. `pagerduty`: the Events API v2, such as https://events.eu.pagerduty.com/v2/enqueue; that of the United States when it is left out.',
    ),
  server: url.optional().describe('`ntfy`: the server, such as https://ntfy.sh.'),
  topic: Topic.optional().describe('`ntfy`: the topic.'),
});
export type ChannelDetails = z.infer<typeof ChannelDetails>;

const Secret = text(2048).describe(
  'Written, never returned. `slack`, `teams` and `discord`: the URL of the incoming webhook. `pagerduty`: the integration key. `ntfy`: an access token, if the server wants one. `webhook`: what signs, as `whsec_` and base64 of 24 to 64 bytes. `email` has none.',
);

interface Fields {
  required: readonly (keyof ChannelDetails)[];
  optional?: readonly (keyof ChannelDetails)[];
  secret: 'required' | 'optional' | 'none';
}

/** What each type of channel has. */
export const CHANNEL_FIELDS: Readonly<Record<ChannelType, Fields>> = {
  email: { required: ['address'], secret: 'none' },
  slack: { required: [], secret: 'required' },
  teams: { required: [], secret: 'required' },
  discord: { required: [], secret: 'required' },
  pagerduty: { required: [], optional: ['url'], secret: 'required' },
  ntfy: { required: ['server', 'topic'], secret: 'optional' },
  webhook: { required: ['url'], secret: 'required' },
};

const Uuid = z.uuid();

export const NotificationChannel = z
  .object({
    id: Uuid,
    orgId: Uuid.nullable().describe('Null: it belongs to the partner.'),
    partnerId: Uuid,
    name: z.string(),
    type: ChannelType,
    details: z.object({
      address: z.string().optional(),
      url: z.string().optional(),
      server: z.string().optional(),
      topic: z.string().optional(),
    }),
    hasSecret: z.boolean(),
    status: ChannelStatus.describe(
      '`untested`: nothing was sent yet. `failing`: what was sent last has not arrived.',
    ),
    lastError: z.string().nullable().describe('Why what was sent last has not arrived.'),
    failingSince: Timestamp.nullable(),
    lastSuccessAt: Timestamp.nullable(),
    pausedUntil: Timestamp.nullable().describe('The receiver has asked the server to wait until then.'),
    createdBy: Uuid.nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'NotificationChannel' });

const name = nfcText(200);

export const NewChannel = z
  .strictObject({
    orgId: Id.optional().describe('Leave it out in partner scope for a channel of the partner.'),
    name,
    type: ChannelType,
    details: ChannelDetails.describe('Which fields each type has is said at the fields.'),
    secret: Secret.optional(),
  })
  .superRefine((channel, context) => {
    for (const { path, message } of channelFaults(channel.type, channel.details, channel.secret)) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
  });
export type NewChannel = z.infer<typeof NewChannel>;

export const ChannelPatch = z
  .strictObject({
    name,
    details: ChannelDetails.describe('Replaces all details. The type cannot be changed.'),
    secret: Secret.nullable().describe(
      'Null removes it. It is needed again when the address that it is sent to changes.',
    ),
  })
  .partial();
export type ChannelPatch = z.infer<typeof ChannelPatch>;

export const ChannelQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only channels of this organization.'),
  ofPartner: z.literal('true').optional().describe('Only channels of the partner itself.'),
});
export type ChannelQuery = z.infer<typeof ChannelQuery>;

/** The outcome of a test message. */
export const ChannelTest = z
  .object({
    ok: z.boolean(),
    responseStatus: z.number().int().nullable().describe('Null if there was no answer, and for mails.'),
    durationMs: z.number().int(),
    error: z.string().nullable(),
  })
  .meta({ id: 'NotificationChannelTest' });

interface Fault {
  path: readonly string[];
  message: string;
}

const SIGNING_SECRET = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/;

/** What is wrong with a channel of the type. `secret` is what it has, be it new or stored. Pure. */
export function channelFaults(
  type: ChannelType,
  details: ChannelDetails,
  secret: string | undefined,
): Fault[] {
  const fields = CHANNEL_FIELDS[type];
  const known: readonly string[] = [...fields.required, ...(fields.optional ?? [])];
  const given = Object.entries(details).filter(([, value]) => value !== undefined);
  return [
    ...fields.required
      .filter((field) => details[field] === undefined)
      .map((field) => ({ path: ['details', field], message: `is required for ${type}` })),
    ...given
      .filter(([field]) => !known.includes(field))
      .map(([field]) => ({ path: ['details', field], message: `is not for ${type}` })),
    ...secretFaults(type, secret),
  ];
}

function secretFaults(type: ChannelType, secret: string | undefined): Fault[] {
  const { secret: rule } = CHANNEL_FIELDS[type];
  const fault = (message: string) => [{ path: ['secret'], message }];
  if (secret === undefined) return rule === 'required' ? fault(`is required for ${type}`) : [];
  if (rule === 'none') return fault(`is not for ${type}`);
  if (type === 'pagerduty' && !/^[A-Za-z0-9]{32}$/.test(secret)) {
    return fault('must be an integration key of 32 letters and digits');
  }
  if (type === 'ntfy' && !/^[\w.~-]{1,200}$/.test(secret)) return fault('must be an access token of ntfy');
  if (type === 'webhook' && !isSigningSecret(secret)) {
    return fault('must be whsec_ and base64 of 24 to 64 bytes');
  }
  return [];
}

function isSigningSecret(secret: string): boolean {
  const [, base64 = ''] = SIGNING_SECRET.exec(secret) ?? [];
  const bytes = Buffer.from(base64, 'base64').length;
  return bytes >= 24 && bytes <= 64;
}
