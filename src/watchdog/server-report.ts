import { stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson } from '../agent/os/files/private-file.ts';
import { type Network, openNetwork, isSecureServer } from '../agent/os/network/network.ts';
import { dropStatuses, waitingStatuses } from '../agent/os/releases/upgrade-files.ts';
import { clock, type Timer } from '../clock.ts';
import type { WatchdogReport } from '../protocol/index.ts';
import { WATCHDOG_VERSION } from './version.ts';

export type AgentState = Omit<WatchdogReport, 'watchdogVersion' | 'updates'>;

const UPDATES_MAX = 20;
const QUIET_MAX_MS = 15 * 60_000;

/**
 * Reports over HTTP what the agent cannot report: that it does not run, and phases of upgrades without a connection.
 * At most one report is sent in each interval, varied by a quarter; an unreachable server is tried less and less
 * often.
 */
export class Reporter {
  readonly #dataDir: string;
  readonly #everyMs: number;
  #state: AgentState = { agentState: 'restarting' };
  #isConnected = false;
  #hasNews = false;
  #failures = 0;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(dataDir: string, everyMs: number) {
    this.#dataDir = dataDir;
    this.#everyMs = everyMs;
    this.#later();
  }

  /** The current state of the agent. States that a connected agent reports itself are not repeated. */
  put(state: AgentState): void {
    if (state.agentState !== this.#state.agentState || state.message !== this.#state.message) {
      this.#hasNews = state.agentState !== 'running' || this.#hasNews;
    }
    this.#state = state;
  }

  connected(is: boolean): void {
    this.#isConnected = is;
  }

  /** Sends a report to find out whether the server serves this machine. */
  async isServed(): Promise<boolean> {
    return (await this.#send()).isServed;
  }

  stop(): void {
    this.#isStopped = true;
    clock.clear(this.#timer);
  }

  #later(): void {
    const quietMs = Math.min(
      this.#everyMs * 2 ** Math.min(this.#failures, 10),
      Math.max(QUIET_MAX_MS, this.#everyMs),
    );
    this.#timer = clock
      .setTimeout(
        () => {
          void this.#round().finally(() => {
            if (!this.#isStopped) this.#later();
          });
        },
        quietMs * (0.75 + Math.random() / 2),
      )
      .unref();
  }

  async #round(): Promise<void> {
    const hasStatuses = !this.#isConnected && (await waitingStatuses(this.#dataDir)).length > 0;
    if (!this.#hasNews && !hasStatuses) return;
    const { isTaken, isServed } = await this.#send();
    // A server without this route refuses every report.
    this.#failures = isTaken ? 0 : this.#failures + 1;
    if (isTaken || isServed) this.#hasNews = false;
  }

  async #send(): ReturnType<typeof sendReport> {
    const waiting = (await waitingStatuses(this.#dataDir)).slice(0, UPDATES_MAX);
    const answer = await sendReport(this.#dataDir, {
      ...this.#state,
      watchdogVersion: WATCHDOG_VERSION,
      updates: waiting.map(({ status }) => status),
    });
    const names = waiting.map(({ name }) => name);
    if (answer.isTaken) await dropStatuses(this.#dataDir, names);
    return answer;
  }
}

/** The agent's credentials, with which the watchdog acts for the device even if the agent cannot. */
const Identity = z.object({
  server: z.url(),
  deviceId: z.string(),
  token: z.string().regex(/^[\x21-\x7E]{1,200}$/),
  nextToken: z
    .string()
    .regex(/^[\x21-\x7E]{1,200}$/)
    .optional(),
});
type Identity = z.infer<typeof Identity>;

/** The setting of the machine's administrator that allows unencrypted connections. */
const Insecure = z.object({ insecureHttp: z.boolean().default(false) });

/** `undefined` if the machine is not enrolled, or if the connection to its server is not allowed. */
async function deviceIdentity(dataDir: string): Promise<Identity | undefined> {
  const read = (name: string) => readPrivateJson(path.join(dataDir, name)).catch(() => undefined);
  const identity = Identity.safeParse(await read('credentials.json')).data;
  if (identity === undefined || isSecureServer(identity.server)) return identity;
  return Insecure.safeParse(await read('settings.json')).data?.insecureHttp === true ? identity : undefined;
}

/** Whether the machine has credentials, valid or not: without any, an agent has nothing to do. */
export const isEnrolled = async (dataDir: string): Promise<boolean> =>
  (await stat(path.join(dataDir, 'credentials.json')).catch(() => undefined)) !== undefined;

const ANSWER_MS = 20_000;

interface ReportAnswer {
  /** The server has stored the report. */
  isTaken: boolean;
  /** The server is reachable and serves this device: if a release cannot connect now, it is at fault itself. */
  isServed: boolean;
}

const NOT_SERVED: ReportAnswer = { isTaken: false, isServed: false };
/** The device is unknown or refused at the moment, or the server is busy: not an error. */
const REFUSES_THE_DEVICE = [401, 403, 408, 410, 423, 425, 429];

/** Sends a report to the server of the enrollment, over the agent's route. Never throws. */
async function sendReport(dataDir: string, report: WatchdogReport): Promise<ReportAnswer> {
  const identity = await deviceIdentity(dataDir);
  if (identity === undefined) return NOT_SERVED;
  const { server, deviceId, token, nextToken } = identity;
  const url = URL.parse(`${server}/api/v1/agents/${encodeURIComponent(deviceId)}/watchdog-report`);
  const network = await openNetwork(dataDir).catch(() => undefined);
  if (url === null || network === undefined) return NOT_SERVED;
  try {
    // The current token first: the first use of a new one ends the connection of the agent.
    for (const each of nextToken === undefined ? [token] : [token, nextToken]) {
      const status = await post(network, url, each, report);
      if (status === 401) continue;
      if (status === undefined || status >= 500 || REFUSES_THE_DEVICE.includes(status)) return NOT_SERVED;
      return { isTaken: status >= 200 && status < 300, isServed: true };
    }
    return NOT_SERVED;
  } finally {
    network.close();
  }
}

/** The status of the response; `undefined` if there was none. */
async function post(
  network: Network,
  url: URL,
  token: string,
  report: WatchdogReport,
): Promise<number | undefined> {
  try {
    const { status, body } = await clock.limit(ANSWER_MS, (signal) =>
      network.request(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(report),
        signal,
      }),
    );
    // The body is not needed.
    body.destroy();
    return status;
  } catch {
    return undefined;
  }
}
