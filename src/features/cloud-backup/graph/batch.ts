import { z } from 'zod';
import type { GraphClient } from './graph-client.ts';
import { GraphError } from './graph-error.ts';

/** As many as Graph takes. */
export const BATCH_MAX = 20;
const ANSWER_MAX = 16 << 20;

const Answers = z.object({
  responses: z.array(z.object({ id: z.string(), status: z.number(), body: z.unknown() })).max(1000),
});

/**
 * Reads several small texts by one request. What is left out of the answer was not had: throttled, too large, gone or not
 * clear. The caller asks for each of those by itself, and hears then what is wrong.
 */
export async function batchedTexts(
  graph: GraphClient,
  places: ReadonlyMap<string, string>,
): Promise<Map<string, Buffer>> {
  const ids = [...places.keys()];
  const requests = [...places.values()].map((url, index) => ({
    id: String(index),
    method: 'GET',
    url,
    headers: { Prefer: 'IdType="ImmutableId"' },
  }));
  const found = new Map<string, Buffer>();
  const answers = await graph
    .json('/$batch', Answers, { method: 'POST', body: { requests }, maxBytes: ANSWER_MAX })
    .catch((error: unknown) => {
      if (error instanceof GraphError && error.code !== 'AUTHENTICATION_FAILED') return { responses: [] };
      throw error;
    });
  for (const { id, status, body } of answers.responses) {
    const name = ids[Number(id)];
    const content = status === 200 && typeof body === 'string' ? decoded(body) : undefined;
    if (name !== undefined && content !== undefined) found.set(name, content);
  }
  return found;
}

/**
 * What is no JSON comes in base64. A message always has a colon, which base64 has not; a text that came as it is may have
 * lost bytes on its way through JSON, unless it is ASCII.
 */
function decoded(body: string): Buffer | undefined {
  if (/^[\w+/=\s-]*$/.test(body)) return Buffer.from(body, 'base64');
  // oxlint-disable-next-line no-control-regex -- ASCII is what is looked for
  return /^[\x00-\x7f]*$/.test(body) ? Buffer.from(body) : undefined;
}
