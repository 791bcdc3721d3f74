import type { ScriptSchedule } from '../../api/index.ts';
import { givenBy, type HeldSecret, type Variable } from './variables.tsx';

/** The secrets of a schedule in its form. */

/** Those that are set, as a person sees them. */
export const heldBy = (
  schedule: Pick<ScriptSchedule, 'secrets'> | undefined,
  personId: string,
): HeldSecret[] =>
  (schedule?.secrets ?? []).map(({ name, setBy }) => ({
    name,
    held: setBy === personId ? 'mine' : 'theirs',
  }));

/** What was typed, and null for what was removed. */
export function secretsToSend(
  { secrets: before }: Pick<ScriptSchedule, 'secrets'>,
  variables: readonly Variable[],
): { secrets?: Record<string, string | null> } {
  const given: Record<string, string | null> = { ...givenBy(variables).secrets };
  const stays = new Set(variables.filter(({ held }) => held !== undefined).map(({ name }) => name));
  for (const { name } of before) if (!stays.has(name)) given[name] ??= null;
  return Object.keys(given).length === 0 ? {} : { secrets: given };
}
