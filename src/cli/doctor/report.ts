import type { CheckResult, CheckState } from './check.ts';

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
