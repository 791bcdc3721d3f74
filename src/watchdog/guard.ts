/**
 * Checks that must run before any other code. Node opens its inspector at SIGUSR1, for any process that may send the
 * signal, unless there is a listener; and a forked agent would start this executable again, endlessly.
 */
process.on('SIGUSR1', () => {});

/** Set for the processes that a watchdog starts. They remove it, so that their own children do not inherit it. */
export const STARTED_BY = 'MUSTER_STARTED_BY';

/** Variables that would make a child run foreign code, or notify the service manager in place of its parent. */
const UNWANTED = [
  'NODE_OPTIONS',
  'NODE_PATH',
  'NODE_CHANNEL_FD',
  'NODE_CHANNEL_SERIALIZATION_MODE',
  'NOTIFY_SOCKET',
  'WATCHDOG_PID',
  'WATCHDOG_USEC',
  'LISTEN_PID',
  'LISTEN_FDS',
  'LISTEN_FDNAMES',
];

const startedBy = process.env[STARTED_BY];
delete process.env[STARTED_BY];

/** Whether this process was started by a watchdog. */
export const isSupervised = process.channel != null && startedBy === 'watchdog';

/** Ends a process that was forked by any program other than a watchdog. The entry calls it before anything else. */
export function guardProcess(): void {
  if (process.channel != null && !isSupervised) {
    process.stderr.write('muster-agent cannot be forked: start it as a program.\n');
    process.exit(70);
  }
  // Children of this process must not inherit them either.
  delete process.env['NODE_OPTIONS'];
  delete process.env['NODE_PATH'];
}

export function childEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !UNWANTED.includes(name));
  return { ...Object.fromEntries(kept), [STARTED_BY]: 'watchdog' };
}
