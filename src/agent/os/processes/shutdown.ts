/** When the program ends: at a signal, or with the one that started it. */

const PARENT_CHECK_MS = 1000;

/** Calls `end` once, at SIGINT or SIGTERM, or, where asked to watch it, when the parent process is gone. */
export function endWith(options: { parentWatch: boolean }, end: () => Promise<void>): void {
  let ending = false;
  const endOnce = () => {
    if (ending) return;
    ending = true;
    end().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGINT', endOnce);
  process.on('SIGTERM', endOnce);
  if (!options.parentWatch) return;
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) endOnce();
  }, PARENT_CHECK_MS).unref();
}
