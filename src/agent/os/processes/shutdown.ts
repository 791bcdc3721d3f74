import { clock } from '../../../clock.ts';

const PARENT_CHECK_MS = 1000;

/**
 * Calls `stop` once and then exits: at SIGINT or SIGTERM, with `parentWatch` when the parent process has ended, and when
 * the returned function is called.
 */
export function onShutdown(options: { parentWatch: boolean }, stop: () => Promise<void>): () => void {
  let isStopping = false;
  const stopOnce = () => {
    if (isStopping) return;
    isStopping = true;
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGINT', stopOnce);
  process.on('SIGTERM', stopOnce);
  if (!options.parentWatch) return stopOnce;
  const parent = process.ppid;
  clock
    .setInterval(() => {
      if (process.ppid !== parent) stopOnce();
    }, PARENT_CHECK_MS)
    .unref();
  return stopOnce;
}
