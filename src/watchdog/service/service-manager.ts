import { execFile } from 'node:child_process';
import { writeSync } from 'node:fs';
import { clock } from '../../clock.ts';

/** What is said to systemd, which restarts a service that falls silent. The others wait for no messages. */
export interface ServiceManager {
  ready(): void;
  stopping(): void;
  /** Ends the signs of life. */
  close(): void;
}

const FD_NAME = 'muster-notify';
const FIRST_FD = 3;
const NOTIFY_MS = 10_000;

/** Signs of life come from the event loop, so a watchdog that hangs is restarted. */
export function openServiceManager(env: NodeJS.ProcessEnv = process.env): ServiceManager {
  const say = sayer(env);
  const everyMs = aliveEveryMs(env);
  const timer =
    say === undefined || everyMs === undefined
      ? undefined
      : clock.setInterval(() => say('WATCHDOG=1'), everyMs);
  timer?.unref();
  return {
    ready: () => say?.('READY=1'),
    stopping: () => say?.('STOPPING=1'),
    close: () => clock.clear(timer),
  };
}

function sayer(env: NodeJS.ProcessEnv): ((text: string) => void) | undefined {
  const fd = inheritedSocket(env);
  if (fd !== undefined) {
    return (text) => {
      try {
        writeSync(fd, `${text}\n`);
      } catch {
        // The service manager restarts a service that it does not hear.
      }
    };
  }
  const socket = env['NOTIFY_SOCKET'];
  if (socket === undefined || socket === '') return undefined;
  // Node has no datagram sockets of Unix. The program speaks with the process id of its parent.
  return (text) => {
    execFile(
      'systemd-notify',
      [text],
      { env: { ...env, NOTIFY_SOCKET: socket }, timeout: NOTIFY_MS },
      () => {},
    );
  };
}

/** The socket that `OpenFile=` of systemd 253 and later hands down. Pure. */
export function inheritedSocket(env: NodeJS.ProcessEnv, pid = process.pid): number | undefined {
  if (Number(env['LISTEN_PID']) !== pid) return undefined;
  const at = (env['LISTEN_FDNAMES'] ?? '').split(':').indexOf(FD_NAME);
  return at === -1 || at >= Number(env['LISTEN_FDS'] ?? 0) ? undefined : FIRST_FD + at;
}

/** A third of the time after which systemd loses patience. Pure. */
export function aliveEveryMs(env: NodeJS.ProcessEnv, pid = process.pid): number | undefined {
  const owner = env['WATCHDOG_PID'];
  if (owner !== undefined && Number(owner) !== pid) return undefined;
  const ms = Number(env['WATCHDOG_USEC']) / 1000 / 3;
  return ms > 0 && ms < 2 ** 31 ? ms : undefined;
}
