import { clock, type Timer } from '../../clock.ts';

/** `skipped`: the check does not apply to this installation, or a prerequisite has failed. */
export type CheckState = 'ok' | 'warning' | 'failed' | 'skipped';

export interface Finding {
  state: CheckState;
  /** The result, as a sentence. */
  message: string;
  /** The remedy, as a sentence. */
  fix?: string;
  /** Several results of the same kind. */
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

/** Runs a check with a time limit. Any failure in it becomes its result, and never stops the other checks. */
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

/** Postgres codes for a missing table or column. */
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

/** In one line, without a final full stop, which the surrounding sentence adds. */
export function messageOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  // If several addresses were tried, the outer error has no message.
  const text = error instanceof Error && message !== '' ? message : String(code ?? error);
  return text.replaceAll(/\s*\n\s*/g, ' ').replace(/\.$/, '');
}

const MARKS: Record<CheckState, string> = { ok: '✔', warning: '!', failed: '✖', skipped: '-' };

export function reportText(results: readonly CheckResult[]): string {
  const width = Math.max(...results.map(({ check }) => check.length));
  const indent = ' '.repeat(width + 4);
  const lines = results.flatMap(({ check, state, message, fix, details = [] }) => [
    `${MARKS[state]} ${check.padEnd(width)}  ${message}`,
    ...details.map((detail) => `${indent}  ${detail}`),
    ...(fix === undefined ? [] : [`${indent}→ ${fix}`]),
  ]);
  const count = (state: CheckState) => results.filter((result) => result.state === state).length;
  const summary = `${count('ok')} in order, ${count('warning')} warnings, ${count('failed')} failed, ${count('skipped')} skipped`;
  return [...lines, '', summary].join('\n');
}

export const isSound = (results: readonly CheckResult[]) => results.every(({ state }) => state !== 'failed');
