import type { Context } from 'mocha';

/** Skips a test visibly where what it needs is missing. Under CI, which installs it, that is a failure. */
export function skipWithout(test: Context, isThere: boolean, what: string): void {
  if (isThere) return;
  if (process.env['CI'] === 'true') throw new Error(`missing: ${what}`);
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn(`      skipped: ${what} is needed`);
  test.skip();
}
