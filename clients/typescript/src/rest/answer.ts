import { ErrorBody } from '../../../../src/dashboard/api/typed-route.ts';
import { MusterError } from '../error.ts';

/** Far more than any refusal of the server has. */
const REFUSAL_BYTES = 64 * 1024;

/** The JSON object of a successful answer; every JSON route answers with one. */
export async function objectOf(response: Response, maxBytes: number): Promise<object> {
  const body = await jsonOf(response, maxBytes);
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw unexpected(response, 'The answer is not a JSON object.');
}

/** What an answer says that is no success. Reads no more of it than a refusal has. */
export async function failureOf(response: Response): Promise<MusterError> {
  const { status, headers } = response;
  const retryAfterMs = waitIn(headers.get('retry-after'), Date.now());
  if (status < 400) {
    await discard(response);
    const to = headers.get('location');
    const where = to === null ? 'elsewhere' : `to ${to}`;
    return unexpected(
      response,
      `The server sends requests on ${where}. Use the address of the server itself.`,
    );
  }
  const body = await jsonOf(response, REFUSAL_BYTES).catch((error: unknown) => {
    if (error instanceof MusterError) return undefined;
    throw error;
  });
  const known = ErrorBody.safeParse(body);
  if (known.success) return new MusterError(status, { ...known.data, retryAfterMs });
  return new MusterError(status, {
    code: 'UNEXPECTED_ANSWER',
    error: `The answer has the status ${status} and no explanation.`,
    requestId: headers.get('x-request-id') ?? undefined,
    retryAfterMs,
  });
}

export const unexpected = ({ status, headers }: Response, error: string): MusterError =>
  new MusterError(status, {
    code: 'UNEXPECTED_ANSWER',
    error,
    requestId: headers.get('x-request-id') ?? undefined,
  });

/** The milliseconds of a `Retry-After`, which is in seconds or a date. */
export function waitIn(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

async function jsonOf(response: Response, maxBytes: number): Promise<unknown> {
  const type = response.headers.get('content-type') ?? 'no type';
  if (!/^application\/json\b/i.test(type)) {
    await discard(response);
    throw unexpected(response, `The answer is ${type}, not JSON. Is this the address of a Muster server?`);
  }
  const text = await textOf(response, maxBytes);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw unexpected(response, 'The answer is called JSON, and is none.');
  }
}

async function textOf(response: Response, maxBytes: number): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return '';
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > maxBytes) {
      await reader.cancel().catch(() => undefined);
      throw unexpected(response, `The answer is longer than ${maxBytes} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** Ends the transfer of a body that nobody reads. */
export async function discard({ body }: Response): Promise<void> {
  await body?.cancel().catch(() => undefined);
}
