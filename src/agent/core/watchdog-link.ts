import { clock } from '../../clock.ts';
import {
  openParentChannel,
  HealthCheck,
  type HealthReport,
  type InstallRequest,
  type ToChild,
} from '../os/supervision.ts';
import { AGENT_VERSION } from './version.ts';

type Welcome = Extract<ToChild, { type: 'welcome' }>;
type InstallAnswer = Extract<ToChild, { type: 'install_answer' }>;

/** The watchdog that has started this agent. */
export interface WatchdogLink {
  readonly watchdogVersion: string;
  readonly programs: string;
  /** Heartbeat interval while this release is on trial. */
  readonly beatEveryMs: number | undefined;
  /** Called when the server has acknowledged a heartbeat. */
  heartbeat(): void;
  connection(state: { isConnected: boolean; reachesServer: boolean }): void;
  /** @param check  called when the watchdog asks for a self-check */
  answerChecks(check: () => Promise<HealthReport>): void;
  /** Resolves with a refusal, or when the watchdog is about to stop this agent. */
  install(request: Omit<InstallRequest, 'type'>): Promise<Pick<InstallAnswer, 'code' | 'message'>>;
}

const WELCOME_MS = 10_000;
/** The watchdog checks the whole file, which may be large. */
const INSTALL_MS = 120_000;

/** `undefined` if no watchdog runs this agent. @param onStop  called when the watchdog wants it to end, or has ended */
export async function openWatchdogLink(onStop: () => void): Promise<WatchdogLink | undefined> {
  let welcome: Welcome | undefined;
  let isWelcome = () => {};
  let check: (() => Promise<HealthReport>) | undefined;
  let isAsked = false;
  const answerCheck = () => {
    isAsked = check === undefined;
    // Without a reply, the watchdog asks again.
    check?.().then(
      (report) => channel?.send({ type: 'health', ...report }),
      () => {},
    );
  };
  let answer: ((message: InstallAnswer) => void) | undefined;
  const channel = openParentChannel({
    closed: onStop,
    message(message) {
      if (message.type === 'stop') onStop();
      else if (message.type === 'install_answer') answer?.(message);
      else if (message.type === 'check') answerCheck();
      else if (message.type === 'welcome') {
        welcome = message;
        isWelcome();
      }
    },
  });
  if (channel === undefined) return undefined;
  await new Promise<void>((resolve) => {
    isWelcome = resolve;
    clock.setTimeout(resolve, WELCOME_MS).unref();
    channel.send({
      type: 'hello',
      component: 'agent',
      version: AGENT_VERSION,
      checks: HealthCheck.options,
    });
  });
  if (welcome === undefined) return undefined;
  const { watchdogVersion, programs } = welcome;
  return {
    watchdogVersion,
    programs,
    get beatEveryMs() {
      return welcome?.beatEveryMs;
    },
    heartbeat: () => channel.send({ type: 'heartbeat' }),
    connection: (state) => channel.send({ type: 'connection', ...state }),
    answerChecks(run) {
      check = run;
      // The watchdog asked before the checks were ready.
      if (isAsked) answerCheck();
    },
    install(request) {
      return new Promise((resolve) => {
        const timer = clock.setTimeout(() => resolve(NO_ANSWER), INSTALL_MS);
        answer = (message) => {
          if (message.attemptId !== request.attemptId) return;
          clock.clear(timer);
          resolve(message);
        };
        channel.send({ type: 'install', ...request });
      });
    },
  };
}

const NO_ANSWER = { code: 'NO_ANSWER', message: 'The watchdog did not answer.' };
