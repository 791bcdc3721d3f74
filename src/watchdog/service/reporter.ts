import { clock, type Timer } from '../../clock.ts';
import { dropStatuses, waitingStatuses } from '../../agent/os/upgrades/status-outbox.ts';
import type { WatchdogReport } from '../../protocol/index.ts';
import { WATCHDOG_VERSION } from '../version.ts';
import { sendReport } from './server-report.ts';

export type AgentState = Omit<WatchdogReport, 'watchdogVersion' | 'updates'>;

const UPDATES_MAX = 20;
const QUIET_MAX_MS = 15 * 60_000;

/**
 * Reports over HTTP what the agent cannot: that it does not run, and phases of upgrades while it has no connection. At
 * most one report is sent in each interval, varied by a quarter; a server that cannot be reached is asked less and less.
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

  /** The present state of the agent. What the agent itself reports while it is connected is not repeated. */
  put(state: AgentState): void {
    if (state.agentState !== this.#state.agentState || state.message !== this.#state.message) {
      this.#hasNews = state.agentState !== 'running' || this.#hasNews;
    }
    this.#state = state;
  }

  connected(is: boolean): void {
    this.#isConnected = is;
  }

  /** Asks the server whether it serves this machine, by a report. */
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
    // A server that does not know this route takes no report, however often it is sent.
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
