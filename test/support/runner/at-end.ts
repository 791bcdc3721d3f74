/** What to close at the end of a process that runs test files by itself; one that `npm test` starts is ended instead. */
const closers: (() => Promise<void>)[] = [];

export function closeAtEnd(close: () => Promise<void>): void {
  closers.push(close);
}

export async function closeAll(): Promise<void> {
  // Mocha names the processes that it starts for files in parallel.
  if (process.env['MOCHA_WORKER_ID'] !== undefined) return;
  for (const close of closers.splice(0)) await close();
}
