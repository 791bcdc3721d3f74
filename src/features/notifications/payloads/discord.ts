import {
  COLOURS,
  cut,
  cutEscaped,
  footnote,
  headline,
  type Links,
  linkOf,
  type Message,
  type OutgoingRequest,
  plainLines,
  RESOLVED_COLOUR,
} from './message.ts';

/** Webhooks of Discord: https://discord.com/developers/docs/resources/webhook#execute-webhook. */

const TITLE_MAX = 256;
const DESCRIPTION_MAX = 4096;
/** All texts of an embed together have at most 6,000 characters. */
const FOOTER_MAX = 1000;

const MARKDOWN = /[\\*_~`|<>[\]()#:@-]/;
/** With a backslash before what Discord takes for Markdown, a link or a mention. */
export const discordText = (text: string, max: number): string =>
  cutEscaped(text, max, (character) => (MARKDOWN.test(character) ? `\\${character}` : character));

export function discordRequest(url: string, { content, at }: Message, links: Links): OutgoingRequest {
  const foot = cut(footnote(content), FOOTER_MAX);
  const embed = {
    title: discordText(headline(content), TITLE_MAX),
    description: discordText(plainLines(content).join('\n'), DESCRIPTION_MAX),
    url: linkOf(content, links),
    color: content.reason === 'resolved' ? RESOLVED_COLOUR : COLOURS[content.severity],
    timestamp: at.toISOString(),
    ...(foot === '' ? {} : { footer: { text: foot } }),
  };
  return {
    url,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    // Nobody is mentioned, whatever a device is called.
    body: JSON.stringify({ embeds: [embed], allowed_mentions: { parse: [] } }),
  };
}
