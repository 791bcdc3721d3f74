import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError, type OutboundFailure } from '../../platform/outbound/outbound-error.ts';
import { clock } from '../../clock.ts';
import { type Deliver, isMailRefusal } from '../../platform/mail.ts';
import { shortened, storableText } from '../../protocol/index.ts';
import { excerptOf, retryAfterMs } from '../webhooks/index.ts';
import type { ChannelDetails, ChannelType } from './channel.schema.ts';
import { discordRequest } from './payloads/discord.ts';
import { notificationMail } from './payloads/mail.ts';
import { type Links, type Message, type OutgoingRequest, oneLine } from './payloads/message.ts';
import { ntfyRequest } from './payloads/ntfy.ts';
import { PAGERDUTY_URL, pagerDutyRequest } from './payloads/pagerduty.ts';
import { slackRequest } from './payloads/slack.ts';
import { teamsRequest } from './payloads/teams.ts';
import { webhookRequest } from './payloads/webhook.ts';

/** Sends one message once, to a channel or to the address of a person. */

export interface SendParts {
  webhookFetch: Pick<GuardedFetch, 'open'>;
  deliverMail: Deliver;
  baseUrl: () => string;
}

export interface Receiver {
  /** Connections of one receiver are kept apart from those of others. */
  id: string;
  partnerId: string;
  type: ChannelType;
  details: ChannelDetails;
  /** Null: it has none. Undefined: it cannot be opened with the keys of this server. */
  secret: string | null | undefined;
}

export type SendOutcome =
  | { ok: true; responseStatus: number | null }
  | {
      ok: false;
      responseStatus: number | null;
      error: string;
      /** Trying again cannot help. */
      isFinal: boolean;
      /** No answer came, so the message may have arrived all the same. */
      isInDoubt: boolean;
      /** The receiver wants to be left alone for so long. */
      waitMs?: number | undefined;
    };

export const ERROR_MAX = 300;
const EXCERPT_MAX = 200;
/** The longest that a receiver can make the server wait when it names no time. */
const BUSY_WAIT_MS = 30_000;
const BUSY = new Set([429, 503]);
/** The request, the secret or the address is wrong, and stays so. */
const FINAL = new Set([400, 401, 403, 404, 405, 410, 413, 422]);

const MAY_HAVE_ARRIVED = new Set<OutboundFailure>(['timed_out', 'invalid_response']);

const CANNOT_OPEN =
  'The secret of the channel cannot be opened with the keys of this server. Store it again.';

const refused = (error: string): SendOutcome => ({
  ok: false,
  responseStatus: null,
  error,
  isFinal: true,
  isInDoubt: false,
});

/**
 * A fault of the receiver is returned as an outcome.
 * @throws the reason of `signal`, if that aborted it
 */
export async function send(
  parts: SendParts,
  receiver: Receiver,
  message: Message,
  signal: AbortSignal,
): Promise<SendOutcome> {
  const links: Links = { baseUrl: parts.baseUrl() };
  if (receiver.secret === undefined) return refused(CANNOT_OPEN);
  if (receiver.type === 'email') {
    const { address } = receiver.details;
    if (address === undefined) return refused('The channel has no address.');
    return sendMail(parts, address, message, links);
  }
  const request = requestOf(receiver, message, links);
  if (request === undefined) return refused('The channel is incomplete.');
  return post(parts.webhookFetch, receiver, request, signal);
}

/** The request that carries a message; `undefined` if the channel lacks what it needs. */
function requestOf(
  { type, details, secret }: Receiver,
  message: Message,
  links: Links,
): OutgoingRequest | undefined {
  const { url, server, topic } = details;
  switch (type) {
    case 'slack':
      return secret == null ? undefined : slackRequest(secret, message, links);
    case 'teams':
      return secret == null ? undefined : teamsRequest(secret, message, links);
    case 'discord':
      return secret == null ? undefined : discordRequest(secret, message, links);
    case 'pagerduty':
      return secret == null ? undefined : pagerDutyRequest(url ?? PAGERDUTY_URL, secret, message, links);
    case 'ntfy':
      return server === undefined || topic === undefined
        ? undefined
        : ntfyRequest({ server, topic, token: secret ?? null }, message, links);
    case 'webhook':
      return url === undefined || secret == null
        ? undefined
        : webhookRequest({ url, secret }, message, links);
    case 'email':
      return undefined;
    default:
      return type satisfies never;
  }
}

export async function sendMail(
  { deliverMail }: Pick<SendParts, 'deliverMail'>,
  address: string,
  message: Message,
  links: Links,
): Promise<SendOutcome> {
  try {
    await deliverMail(notificationMail(address, message, links));
    return { ok: true, responseStatus: null };
  } catch (error) {
    const isFinal = isMailRefusal(error);
    return {
      ok: false,
      responseStatus: null,
      // What the mail server said is in the log of the attempt; it may name hosts of the operator.
      error: isFinal ? 'The mail server refuses the mail.' : 'The mail server did not take the mail.',
      isFinal,
      isInDoubt: false,
    };
  }
}

async function post(
  outbound: Pick<GuardedFetch, 'open'>,
  { id, partnerId }: Receiver,
  { url, headers, body }: OutgoingRequest,
  signal: AbortSignal,
): Promise<SendOutcome> {
  try {
    const answer = await outbound.open(url, {
      method: 'POST',
      headers,
      body,
      keepFor: `notifications ${partnerId} ${id}`,
      signal,
    });
    const { status } = answer;
    const excerpt = await excerptOf(answer);
    if (status >= 200 && status < 300) return { ok: true, responseStatus: status };
    const words = oneLine(storableText(excerpt ?? ''));
    const said = words === '' ? '' : ` It said: ${shortened(words, EXCERPT_MAX)}`;
    return {
      ok: false,
      responseStatus: status,
      error: shortened(`The receiver answered ${status}.${said}`, ERROR_MAX),
      isFinal: FINAL.has(status),
      isInDoubt: false,
      waitMs: BUSY.has(status)
        ? (retryAfterMs(answer.headers.get('retry-after'), clock.date()) ?? BUSY_WAIT_MS)
        : undefined,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return {
      ok: false,
      responseStatus: null,
      error: error.message,
      isFinal: false,
      isInDoubt: MAY_HAVE_ARRIVED.has(error.reason),
    };
  }
}
