import {
  cut,
  footnote,
  headline,
  type Links,
  linkOf,
  type Message,
  type OutgoingRequest,
  plainLines,
} from './message.ts';

/** Workflows of Power Automate that post to Teams. They take Adaptive Cards and no older format. */

/** Teams refuses messages of more than 28 KB. The rest is for what Power Automate adds. */
const MESSAGE_MAX_BYTES = 27 * 1024;
const LINE_MAX = 1000;
const HEADER_MAX = 300;

/** A run of text is shown as it is. In a `TextBlock`, the name of a device could be Markdown, such as a link. */
const run = (text: string, style: object = {}) => ({
  type: 'RichTextBlock',
  inlines: [{ type: 'TextRun', text, ...style }],
});

export function teamsRequest(url: string, { content }: Message, links: Links): OutgoingRequest {
  const lines = plainLines(content).map((line) => cut(line, LINE_MAX));
  const foot = cut(footnote(content), LINE_MAX);
  const withLines = (some: readonly string[]) =>
    JSON.stringify({
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          contentUrl: null,
          content: {
            $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
            type: 'AdaptiveCard',
            version: '1.4',
            body: [
              run(cut(headline(content), HEADER_MAX), {
                weight: 'bolder',
                size: 'large',
                color: colourOf(content),
              }),
              ...some.map((line) => run(line)),
              ...(foot === '' ? [] : [run(foot, { isSubtle: true, size: 'small' })]),
            ],
            actions: [{ type: 'Action.OpenUrl', title: 'Open in Muster', url: linkOf(content, links) }],
          },
        },
      ],
    });
  // The lines are bounded, but a character may be six bytes in JSON.
  let body = withLines(lines);
  while (Buffer.byteLength(body) > MESSAGE_MAX_BYTES && lines.length > 0) {
    lines.pop();
    body = withLines(lines);
  }
  return { url, headers: { 'content-type': 'application/json; charset=utf-8' }, body };
}

function colourOf({ reason, severity }: Message['content']): string {
  if (reason === 'resolved') return 'good';
  if (reason === 'test') return 'default';
  return severity === 'critical' || severity === 'high' ? 'attention' : 'warning';
}
