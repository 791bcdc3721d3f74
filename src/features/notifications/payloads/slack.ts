import {
  cutEscaped,
  footnote,
  headline,
  type Links,
  linkOf,
  type Message,
  type OutgoingRequest,
  plainLines,
} from './message.ts';

/** Incoming webhooks of Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. */

/** Of a header, and of the text of a section. */
const HEADER_MAX = 150;
const SECTION_MAX = 3000;

/** These begin and end what Slack takes for a mention or a link, such as `<!channel>`. */
const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
export const slackText = (text: string, max: number): string =>
  cutEscaped(text, max, (character) => ESCAPES[character] ?? character);

const plain = (text: string, max: number) => ({
  type: 'plain_text',
  text: slackText(text, max),
  emoji: false,
});

export function slackRequest(url: string, { content }: Message, links: Links): OutgoingRequest {
  const head = headline(content);
  const lines = plainLines(content).join('\n');
  const foot = footnote(content);
  const blocks = [
    { type: 'header', text: plain(head, HEADER_MAX) },
    ...(lines === '' ? [] : [{ type: 'section', text: plain(lines, SECTION_MAX) }]),
    { type: 'section', text: { type: 'mrkdwn', text: `<${linkOf(content, links)}|Open in Muster>` } },
    ...(foot === '' ? [] : [{ type: 'context', elements: [plain(foot, SECTION_MAX)] }]),
  ];
  return {
    url,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    // The text is what a phone shows before the message is opened.
    body: JSON.stringify({ text: slackText(head, SECTION_MAX), blocks }),
  };
}
