import { z } from 'zod';
import { AlertSeverity } from '../../alerts/index.ts';
import { DASHBOARD_PAGES } from '../../dashboard-pages.ts';
import { NotificationReason } from '../notification.schema.ts';

/** What is told, before it has the form of a receiver. Everything below is pure. */

const ToldAlert = z.object({
  id: z.string(),
  title: z.string(),
  message: z.string(),
  severity: AlertSeverity,
  kind: z.string(),
  raisedAt: z.string(),
});
export type ToldAlert = z.infer<typeof ToldAlert>;

/** Stored with a notification, so that each attempt says the same. */
export const MessageContent = z.object({
  reason: NotificationReason,
  groupId: z.string(),
  title: z.string(),
  /** The same for all messages of a conversation. */
  threadTitle: z.string(),
  /** The worst of the alerts. */
  severity: AlertSeverity,
  count: z.number(),
  /** The first of them. */
  alerts: z.array(ToldAlert),
  orgId: z.string().nullable(),
  organization: z.string().nullable(),
  policy: z.string().nullable(),
  /** A sentence above the alerts. */
  text: z.string().nullable(),
});
export type MessageContent = z.infer<typeof MessageContent>;

export interface Message {
  /** Of the notification: the same for each attempt. */
  id: string;
  at: Date;
  content: MessageContent;
}

/** Where the dashboard shows the alerts. */
export interface Links {
  /** The address of this server, without a slash at the end. */
  baseUrl: string;
}

/** A request that carries a message. */
export interface OutgoingRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** So many alerts of a message are named. */
export const NAMED_MAX = 5;

const PREFIXES: Record<NotificationReason, string> = {
  raised: '',
  escalated: 'Escalated: ',
  repeated: 'Still open: ',
  acknowledged: 'Acknowledged: ',
  resolved: 'Resolved: ',
  test: '',
};

/** One line that says it all. */
export const headline = ({ reason, title }: Pick<MessageContent, 'reason' | 'title'>): string =>
  oneLine(`${PREFIXES[reason]}${title}`);

/** The title of a message about some alerts, the first of which has `first` as its title. */
export const titleOf = (count: number, first: string, place: string | null): string =>
  count <= 1 ? first : `${count} alerts${place === null ? '' : ` at ${place}`}: ${first} and others`;

/** How many alerts a message is about and does not name. */
export const unnamed = ({ count, alerts }: Pick<MessageContent, 'count' | 'alerts'>): number =>
  Math.max(0, count - alerts.length);

/** What stands below the alerts: whose they are, and why the recipient is told. */
export function footnote({ organization, policy }: MessageContent): string {
  const parts = [
    organization === null ? [] : `Organization: ${organization}`,
    policy === null ? [] : `Policy: ${policy}`,
  ].flat();
  return oneLine(parts.join(' · '));
}

/** The alerts of a message as lines of plain text. */
export function plainLines(content: MessageContent): string[] {
  const left = unnamed(content);
  return [
    ...(content.text === null ? [] : [oneLine(content.text)]),
    ...content.alerts.map(({ severity, title, message }) =>
      oneLine(
        content.count === 1 && title === content.title
          ? `${severity}: ${message}`
          : `${severity}: ${title}. ${message}`,
      ),
    ),
    ...(left === 0 ? [] : [`and ${left} more`]),
  ];
}

/** The page of the dashboard with the alerts. */
export function linkOf({ alerts, count }: MessageContent, { baseUrl }: Links): string {
  const [first] = alerts;
  const page = `${baseUrl}${DASHBOARD_PAGES.alerts}`;
  return count === 1 && first !== undefined ? `${page}?alert=${first.id}` : page;
}

/** Without what breaks a line, moves the cursor or turns the direction of writing. */
export const oneLine = (text: string): string =>
  text
    .replaceAll(/[\s\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, '')
    .trim();

/** The beginning of a text, in characters. It ends with an ellipsis if there was more. */
export const cut = (text: string, max: number): string =>
  text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;

/** The beginning of a text, in bytes of UTF-8. */
export function cutBytes(text: string, max: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= max) return text;
  // As a part of a stream, it may end with a part of a character, which is left out.
  const kept = new TextDecoder().decode(bytes.subarray(0, max - Buffer.byteLength('…')), { stream: true });
  return `${kept}…`;
}

/** Escapes a text character by character and ends before it is longer than `max`, so that no escape is cut in two. */
export function cutEscaped(text: string, max: number, escape: (character: string) => string): string {
  let out = '';
  for (const character of text) {
    const next = escape(character);
    if (out.length + next.length > max - 1) return `${out}…`;
    out += next;
  }
  return out;
}

/** As a colour of 24 bits. */
export const COLOURS: Record<AlertSeverity, number> = {
  critical: 0xc9_2a_2a,
  high: 0xe8_59_0c,
  medium: 0xf0_8c_00,
  low: 0x19_71_c2,
  info: 0x86_8e_96,
};
export const RESOLVED_COLOUR = 0x2f_9e_44;
