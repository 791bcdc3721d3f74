import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { clock } from '../../clock.ts';
import {
  AgentErrorCode,
  type CommandOutput,
  type CommandPayload,
  type ServiceCheck,
  shortened,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { DurableContext, DurableHandlers } from '../work/handler.ts';

/** Pause between two attempts: a machine that is just starting needs a while to answer. */
const PAUSE_MS = 1000;

export const recoveryCheckHandlers = (): DurableHandlers => ({ 'recovery.check': untilItPasses });

async function untilItPasses(
  { check, timeoutSeconds }: CommandPayload<'recovery.check'>,
  { signal }: Pick<DurableContext<'recovery.check'>, 'signal'>,
): Promise<CommandOutput<'recovery.check'>> {
  const startedAt = clock.monotonic();
  const deadline = clock.timeoutSignal(timeoutSeconds * 1000);
  const either = AbortSignal.any([signal, deadline]);
  let message = 'It has not answered in time.';
  for (let attempts = 1; ; attempts++) {
    const found = await checkService(check, either);
    if (signal.aborted) throw new AgentError(AgentErrorCode.cancelled, 'The check was stopped.');
    // An attempt that was cut off by the deadline adds no information.
    if (!deadline.aborted || found.passed) message = found.message;
    const seconds = (clock.monotonic() - startedAt) / 1000;
    if (found.passed || deadline.aborted) {
      return { passed: found.passed, message: shortened(message, 500), attempts, seconds };
    }
    await clock.sleep(PAUSE_MS, { signal: either }).catch(() => undefined);
  }
}

interface Found {
  passed: boolean;
  message: string;
}

type HttpCheck = Extract<ServiceCheck, { type: 'http' }>;

/**
 * Limit of one attempt, so that a service that accepts a connection and stays silent does not use up the
 * whole time.
 */
const ATTEMPT_MS = 10_000;
const READ_MAX = 65_536;

/** Tries once whether a service answers. Never rejects. */
async function checkService(check: ServiceCheck, signal: AbortSignal): Promise<Found> {
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
  const { status, body, isCut } = await fetchOnce(check, signal);
  const isExpected =
    check.expectStatus === undefined ? status >= 200 && status < 400 : status === check.expectStatus;
  if (!isExpected) return { passed: false, message: `It answered with status ${status}.` };
  if (check.contains !== undefined && !body.includes(check.contains)) {
    const where = isCut ? ` in the first ${READ_MAX} bytes` : '';
    return {
      passed: false,
      message: `It answered with status ${status}, without the expected text${where}.`,
    };
  }
  return { passed: true, message: `It answered with status ${status}.` };
}

/** Redirects are not followed: the check is about the address itself. */
function fetchOnce(
  { host, port, path, secure }: HttpCheck,
  signal: AbortSignal,
): Promise<{ status: number; body: string; isCut: boolean }> {
  const options = { host, port, path, signal, agent: false, headers: { accept: '*/*' } };
  return new Promise((resolve, reject) => {
    const answered = (response: http.IncomingMessage) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      const done = () => {
        const body = Buffer.concat(parts).toString('utf8');
        resolve({ status: response.statusCode ?? 0, body, isCut: bytes > READ_MAX });
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
    // A restored machine often has a certificate for another name, and no secret is sent to it.
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
