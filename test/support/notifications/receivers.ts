import type { IncomingMessage, ServerResponse } from 'node:http';
import { startHttpsServer } from '../https-server.ts';

/** A request that a receiver got. */
export interface Got {
  path: string;
  headers: IncomingMessage['headers'];
  text: string;
  /** The parsed JSON; tests look into it as they please. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a receiver gets whatever the server sends
  body: any;
}

type Answering = (response: ServerResponse, got: Got) => unknown;

/** What a real receiver answers if a message breaks its rules: status and words. */
type Refusal = readonly [status: number, words: string];

const LINK_OR_MENTION = /<(?!https?:\/\/[^|>]+\|)/;

/** The rules of the real ones, by the first part of the path. */
const RULES: Readonly<Record<string, (got: Got) => Refusal | undefined>> = {
  slack({ body }) {
    const texts = [
      body.text,
      // oxlint-disable-next-line typescript/no-explicit-any -- see `Got`
      ...body.blocks.flatMap((block: any) => [
        block.text?.text ?? '',
        // oxlint-disable-next-line typescript/no-explicit-any -- see `Got`
        ...(block.elements ?? []).map((element: any) => element.text),
      ]),
    ];
    if (texts.some((text: string) => LINK_OR_MENTION.test(text))) return [400, 'mentions_everybody'];
    // oxlint-disable-next-line typescript/no-explicit-any -- see `Got`
    for (const { type, text } of body.blocks as any[]) {
      if (type === 'header' && text.text.length > 150) return [400, 'invalid_blocks'];
      if (type === 'section' && text.text.length > 3000) return [400, 'invalid_blocks'];
      if (text !== undefined && text.text === '') return [400, 'invalid_blocks'];
    }
    return body.text === '' ? [400, 'no_text'] : undefined;
  },
  teams({ text, body }) {
    if (Buffer.byteLength(text) > 28 * 1024) return [413, 'Message size is too large'];
    const [card] = body.attachments ?? [];
    const isCard =
      body.type === 'message' &&
      card?.contentType === 'application/vnd.microsoft.card.adaptive' &&
      card.content.type === 'AdaptiveCard';
    return isCard ? undefined : [400, 'Property type must be AdaptiveCard'];
  },
  discord({ body }) {
    const [embed] = body.embeds ?? [];
    if (embed === undefined) return [400, '{"message":"Cannot send an empty message"}'];
    if (embed.title.length > 256 || embed.description.length > 4096) return [400, '{"embeds":["0"]}'];
    return Array.isArray(body.allowed_mentions?.parse) ? undefined : [400, 'would mention everyone'];
  },
  pagerduty({ body }) {
    if (!/^[A-Za-z0-9]{32}$/.test(body.routing_key)) return [400, 'invalid routing key'];
    if (!body.dedup_key || body.dedup_key.length > 255) return [400, 'invalid dedup_key'];
    if (body.event_action !== 'trigger') return undefined;
    const { summary, severity, source } = body.payload;
    if (!['critical', 'error', 'warning', 'info'].includes(severity)) return [400, 'invalid severity'];
    return summary.length > 1024 || source === '' ? [400, 'invalid event'] : undefined;
  },
  ntfy({ body, headers }) {
    if (headers.authorization !== 'Bearer tk_secret') return [401, 'unauthorized'];
    if (Buffer.byteLength(body.message) > 4096) return [413, 'message too large'];
    return body.priority >= 1 && body.priority <= 5 ? undefined : [400, 'invalid priority'];
  },
};

/** Receivers that refuse what the real ones refuse, unless a path has something else to say. */
export async function startReceivers() {
  const got: Got[] = [];
  const answers = new Map<string, Answering>();
  const server = await startHttpsServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString('utf8');
      const one: Got = { path: request.url ?? '', headers: request.headers, text, body: JSON.parse(text) };
      got.push(one);
      const [, kind = ''] = one.path.split('/');
      const [status, words] = RULES[kind]?.(one) ?? [200, 'ok'];
      const answer = answers.get(one.path);
      if (answer === undefined) response.writeHead(status).end(words);
      else answer(response, one);
    });
  });
  return {
    got,
    url: (path: string) => `https://127.0.0.1:${server.port}${path}`,
    at: (path: string) => got.filter((one) => one.path === path),
    /** What is answered at this path from now on. */
    answer: (path: string, how: Answering) => void answers.set(path, how),
    status: (path: string, status: number, headers: Record<string, string> = {}) =>
      void answers.set(path, (response) => response.writeHead(status, headers).end(`said ${status}`)),
    asUsual: (path: string) => void answers.delete(path),
    stop: () => server.stop(),
    start: () => server.start(),
  };
}
