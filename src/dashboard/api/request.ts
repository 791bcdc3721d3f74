import { z } from 'zod';
import { type Answer, ErrorBody, type Input, type InputParts, pathOf, type Route } from './typed-route.ts';

/** Requests to the REST API, typed by the routes that the server really has. */

const DeviceFault = z.object({ code: z.string(), message: z.string().min(1) });
/** The codes under which a device refuses, in words of its own. */
const REFUSED_BY_DEVICE: ReadonlySet<string> = new Set(['DEVICE_ERROR', 'CONFLICT', 'NOT_FOUND']);
const FieldFaults = z.array(z.object({ path: z.string(), message: z.string() }));

/** A refusal of the server, or the lack of an answer (status 0, code `UNREACHABLE` or `NO_ANSWER`). The message is for people. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: unknown;
  readonly requestId: string | undefined;

  constructor(status: number, body: z.output<typeof ErrorBody>) {
    super(body.error);
    this.name = 'ApiError';
    this.status = status;
    this.code = body.code;
    this.details = body.details;
    this.requestId = body.requestId;
  }

  /** The error that the device reported for the request. */
  get deviceReason(): string | undefined {
    return REFUSED_BY_DEVICE.has(this.code) ? DeviceFault.safeParse(this.details).data?.message : undefined;
  }

  /** The rule that each invalid field breaks, by the path of the field within the body. */
  get fields(): Record<string, string> {
    const faults = FieldFaults.safeParse(this.details);
    if (!faults.success) return {};
    return Object.fromEntries(
      faults.data.map(({ path, message }) => [
        path.replace(/^body\./, ''),
        // Ids are chosen here and never typed, so one that is not valid is a choice that was not made.
        message === 'Invalid UUID' ? 'Choose one.' : message,
      ]),
    );
  }
}

export interface SendOptions {
  token?: string | undefined;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  /** The body, for a route that takes a file, with its SHA-256 in hexadecimal digits. */
  file?: { bytes: Blob; sha256: string };
  /** How long the server has to begin its answer. What changes something has no limit unless it is given. */
  answerMs?: number;
}

/**
 * Of a reading. A connection that ended without a word, as after a sleep, swallows the request. The longest that the
 * server waits for a device is half of this.
 */
const ANSWER_MS = 60_000;

/** Sends one request. Throws an `ApiError` for each answer that is not a success. */
export async function send<R extends Route>(
  route: R,
  input: Input<R>,
  options: SendOptions = {},
): Promise<Answer<R>> {
  const response = await raw(route, input, options);
  // The types are made from the schemas by which the server parses its own answers.
  return (await response.json()) as Answer<R>;
}

/** As `send`, but returns the response itself, such as a file. */
export async function raw<R extends Route>(
  route: R,
  input: Input<R>,
  {
    token,
    signal,
    headers = {},
    file,
    answerMs = route.startsWith('GET ') ? ANSWER_MS : undefined,
  }: SendOptions,
): Promise<Response> {
  const shape = input as InputParts;
  const patience = new AbortController();
  const timer = answerMs === undefined ? undefined : setTimeout(() => patience.abort(), answerMs);
  const response = await fetch(pathOf(route, shape), {
    method: route.slice(0, route.indexOf(' ')),
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(file === undefined
        ? {}
        : { 'content-type': 'application/octet-stream', 'x-content-sha256': file.sha256 }),
      ...(shape.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(file === undefined ? {} : { body: file.bytes }),
    ...(shape.body === undefined ? {} : { body: JSON.stringify(shape.body) }),
    signal: AbortSignal.any([patience.signal, ...(signal === undefined ? [] : [signal])]),
  })
    .catch((error: unknown) => {
      if (signal?.aborted === true) throw error;
      if (patience.signal.aborted) {
        throw new ApiError(0, { error: 'The server has not answered in time.', code: 'NO_ANSWER' });
      }
      throw new ApiError(0, { error: 'The server cannot be reached.', code: 'UNREACHABLE' });
    })
    .finally(() => clearTimeout(timer));
  if (response.ok) return response;
  throw await failureOf(response);
}

async function failureOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => undefined);
  const known = ErrorBody.safeParse(body);
  if (known.success) return new ApiError(response.status, known.data);
  const error = `The server answered with status ${response.status} and no explanation.`;
  return new ApiError(response.status, { error, code: 'UNEXPECTED' });
}
