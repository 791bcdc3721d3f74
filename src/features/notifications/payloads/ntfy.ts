import type { AlertSeverity } from '../../alerts/index.ts';
import {
  cutBytes,
  footnote,
  headline,
  type Links,
  linkOf,
  type Message,
  type OutgoingRequest,
  plainLines,
} from './message.ts';

/** JSON messages, published to the root of an ntfy server: https://docs.ntfy.sh/publish/#publish-as-json. */

/** A longer message would become an attached file. */
const MESSAGE_MAX_BYTES = 4096;
const TITLE_MAX_BYTES = 250;

const PRIORITIES: Record<AlertSeverity, 1 | 2 | 3 | 4 | 5> = {
  critical: 5,
  high: 4,
  medium: 3,
  low: 2,
  info: 1,
};
/** That a problem is over wakes nobody. */
const RESOLVED_PRIORITY = 2;

export function ntfyRequest(
  { server, topic, token }: { server: string; topic: string; token: string | null },
  { content }: Message,
  links: Links,
): OutgoingRequest {
  const isOver = content.reason === 'resolved';
  const lines = [...plainLines(content), footnote(content)].filter((line) => line !== '');
  const body = {
    topic,
    title: cutBytes(headline(content), TITLE_MAX_BYTES),
    message: cutBytes(lines.join('\n'), MESSAGE_MAX_BYTES),
    priority: isOver ? RESOLVED_PRIORITY : PRIORITIES[content.severity],
    tags: [isOver ? 'white_check_mark' : content.reason === 'test' ? 'bell' : 'warning'],
    click: linkOf(content, links),
  };
  return {
    url: server,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  };
}
