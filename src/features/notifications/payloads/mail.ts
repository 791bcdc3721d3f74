import type { Mail } from '../../../platform/mail.ts';
import {
  COLOURS,
  cut,
  footnote,
  headline,
  type Links,
  linkOf,
  type Message,
  oneLine,
  plainLines,
  RESOLVED_COLOUR,
} from './message.ts';

/** A mail in plain text and HTML. All mails of a conversation name its root, so that readers show them as one thread. */

const SUBJECT_MAX = 200;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
export const escapedHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');

/** @param to  one address */
export function notificationMail(to: string, { id, content }: Message, links: Links): Mail {
  const head = headline(content);
  const lines = plainLines(content);
  const link = linkOf(content, links);
  const foot = footnote(content);
  const host = new URL(links.baseUrl).hostname;
  const isFirst = content.reason === 'raised' || content.reason === 'test';
  const subject = cut(oneLine(content.threadTitle), SUBJECT_MAX);
  return {
    to,
    // Some readers make threads by the subject as well, without its `Re:`.
    subject: isFirst ? subject : `Re: ${subject}`,
    text: [head, '', ...lines, '', link, ...(foot === '' ? [] : ['', foot]), ''].join('\n'),
    html: htmlOf({ head, lines, link, foot, colour: colourOf(content) }),
    messageId: `<${id}@${host}>`,
    references: `<${content.groupId}@${host}>`,
  };
}

interface Parts {
  head: string;
  lines: readonly string[];
  link: string;
  foot: string;
  colour: string;
}

const htmlOf = ({ head, lines, link, foot, colour }: Parts): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escapedHtml(head)}</title></head>
<body style="margin:0;padding:24px;font:15px/1.5 system-ui,sans-serif;color:#212529">
<div style="max-width:560px;margin:0 auto;border-left:4px solid ${colour};padding-left:16px">
<h1 style="font-size:18px;margin:0 0 12px">${escapedHtml(head)}</h1>
${lines.map((line) => `<p style="margin:0 0 8px">${escapedHtml(line)}</p>`).join('\n')}
<p style="margin:16px 0"><a href="${escapedHtml(link)}">Open in Muster</a></p>
<p style="margin:0;font-size:13px;color:#868e96">${escapedHtml(foot)}</p>
</div></body></html>
`;

const colourOf = ({ reason, severity }: Message['content']): string => {
  const colour = reason === 'resolved' ? RESOLVED_COLOUR : COLOURS[severity];
  return `#${colour.toString(16).padStart(6, '0')}`;
};
