/** What the test files of this process share and has to be closed. */
const closers: (() => Promise<void>)[] = [];

/** Closes it after the last test file, or earlier: before files that may not run beside it (`closeShared`). */
export function closeAtEnd(close: () => Promise<void>): void {
  closers.push(close);
}

/** Closes what the files until now have shared. A file that asks for it later gets a new one. */
export async function closeShared(): Promise<void> {
  for (const close of closers.splice(0)) await close();
}

/** At the end of a process that runs test files by itself. One that `npm test` starts is ended instead. */
export async function closeAll(): Promise<void> {
  // Mocha names the processes that it starts for files in parallel.
  if (process.env['MOCHA_WORKER_ID'] === undefined) await closeShared();
}
