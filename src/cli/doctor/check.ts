import { clock, type Timer } from '../../clock.ts';

/** `skipped`: it does not apply to this installation, or what it needs has failed. */
export type CheckState = 'ok' | 'warning' | 'failed' | 'skipped';

export interface Finding {
  state: CheckState;
  /** What was found, as a sentence. */
  message: string;
  /** What to do about it, as a sentence. */
  fix?: string;
  /** More than one thing of the same kind. */
  details?: readonly string[];
}

export interface Check {
  name: string;
  run: () => Promise<Finding>;
}

export interface CheckResult extends Finding {
  check: string;
  ms: number;
}

const LIMIT_MS = 20_000;

export const ok = (message: string): Finding => ({ state: 'ok', message });
export const skipped = (message: string): Finding => ({ state: 'skipped', message });
export const warning = (message: string, fix: string): Finding => ({ state: 'warning', message, fix });
export const failed = (message: string, fix: string, details?: readonly string[]): Finding => ({
  state: 'failed',
  message,
  fix,
  ...(details === undefined ? {} : { details }),
});

/** Runs a check for a limited time. Whatever happens in it is its result, and never an end of the others. */
export async function runCheck({ name, run }: Check, limitMs = LIMIT_MS): Promise<CheckResult> {
  const since = clock.monotonic();
  let timer: Timer | undefined;
  const late = new Promise<Finding>((resolve) => {
    timer = clock.setTimeout(
      () =>
        resolve(
          failed(
            `The check took longer than ${limitMs / 1000} seconds.`,
            'Look into what it waits for, and run it again.',
          ),
        ),
      limitMs,
    );
  });
  const found = await Promise.race([run().catch(failureOf), late]);
  clock.clear(timer);
  return { check: name, ...found, ms: Math.round(clock.monotonic() - since) };
}

/** What Postgres answers where a table or a column is missing. */
const NOT_MIGRATED = new Set<unknown>(['42P01', '42703']);

function failureOf(error: unknown): Finding {
  if (error instanceof Error && 'code' in error && NOT_MIGRATED.has(error.code)) {
    return skipped('The schema of the database is older than this check.');
  }
  return failed(
    `The check failed: ${messageOf(error)}.`,
    'Correct what the message names, and run it again.',
  );
}

/** In one line, without a full stop at its end that the sentence around it adds. */
export function messageOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  // Of several addresses that were tried, none has a message.
  const text = error instanceof Error && message !== '' ? message : String(code ?? error);
  return text.replaceAll(/\s*\n\s*/g, ' ').replace(/\.$/, '');
}
