/**
 * What must be true before anything else runs. Node opens its inspector at SIGUSR1, to anyone who may send the signal,
 * unless somebody listens for it; and an agent that is forked starts this executable again, without end.
 */
process.on('SIGUSR1', () => {});

/** Set for the processes that a watchdog starts, and removed by them, so that nothing that they start has it. */
export const STARTED_BY = 'MUSTER_STARTED_BY';

/** Variables that would make a child run foreign code, or speak with the service manager in place of its parent. */
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

/** Whether a watchdog has started this process. */
export const isSupervised = process.channel != null && startedBy === 'watchdog';

if (process.channel != null && !isSupervised) {
  process.stderr.write('muster-agent cannot be forked: start it as a program.\n');
  process.exit(70);
}
// What this process starts has no use for them either.
delete process.env['NODE_OPTIONS'];
delete process.env['NODE_PATH'];

export function childEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !UNWANTED.includes(name));
  return { ...Object.fromEntries(kept), [STARTED_BY]: 'watchdog' };
}
