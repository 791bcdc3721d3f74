import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { clock } from '../../../clock.ts';
import type { ServiceCheck } from '../../../protocol/index.ts';

export interface Found {
  passed: boolean;
  message: string;
}

type HttpCheck = Extract<ServiceCheck, { type: 'http' }>;

/** Of one attempt: a service that accepts a connection and then says nothing must not use up all the time. */
const ATTEMPT_MS = 10_000;
const READ_MAX = 65_536;

/** Tries once whether a service answers. Never rejects. */
export async function checkService(check: ServiceCheck, signal: AbortSignal): Promise<Found> {
  const limited = AbortSignal.any([signal, clock.timeoutSignal(ATTEMPT_MS)]);
  try {
    return await (check.type === 'tcp' ? connect(check, limited) : request(check, limited));
  } catch (error) {
    return { passed: false, message: reasonOf(error, limited) };
  }
}

async function connect({ host, port }: { host: string; port: number }, signal: AbortSignal): Promise<Found> {
  await new Promise<void>((resolve, reject) => {
    const socket = net.connect({ host, port });
    const stop = () => socket.destroy(new Error('stopped'));
    signal.addEventListener('abort', stop, { once: true });
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('error', reject);
    socket.once('close', () => {
      signal.removeEventListener('abort', stop);
      reject(new Error('closed'));
    });
    if (signal.aborted) stop();
  });
  return { passed: true, message: `Port ${port} accepts connections.` };
}

async function request(check: HttpCheck, signal: AbortSignal): Promise<Found> {
  const { status, body } = await fetchOnce(check, signal);
  const isExpected =
    check.expectStatus === undefined ? status >= 200 && status < 400 : status === check.expectStatus;
  if (!isExpected) return { passed: false, message: `It answered with status ${status}.` };
  if (check.contains !== undefined && !body.includes(check.contains)) {
    return { passed: false, message: `It answered with status ${status}, without the expected text.` };
  }
  return { passed: true, message: `It answered with status ${status}.` };
}

/** No redirect is followed: what the address itself answers is what is asked for. */
function fetchOnce(
  { host, port, path, secure }: HttpCheck,
  signal: AbortSignal,
): Promise<{ status: number; body: string }> {
  const options = { host, port, path, signal, agent: false, headers: { accept: '*/*' } };
  return new Promise((resolve, reject) => {
    const answered = (response: http.IncomingMessage) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      const done = () => {
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString('utf8') });
        response.destroy();
      };
      response.on('data', (part: Buffer) => {
        parts.push(part.subarray(0, READ_MAX - bytes));
        bytes += part.length;
        if (bytes >= READ_MAX) done();
      });
      response.on('end', done);
      response.on('error', reject);
    };
    // A restored machine often has a certificate for another name, and it is not asked for anything secret.
    const sent = secure
      ? https.request({ ...options, rejectUnauthorized: false }, answered)
      : http.request(options, answered);
    sent.on('error', reject);
    sent.end();
  });
}

function reasonOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'It did not answer in time.';
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return REASONS[code] ?? (code === '' ? 'The connection was closed.' : `The connection failed: ${code}.`);
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was closed.',
  ENOTFOUND: 'The name of the host is not known.',
  EAI_AGAIN: 'The name of the host could not be looked up.',
  EHOSTUNREACH: 'The host cannot be reached.',
  ENETUNREACH: 'The network cannot be reached.',
};
