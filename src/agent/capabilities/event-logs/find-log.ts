import { logNotFound } from '../../core/agent-error.ts';

/** Finds a log in the list, ignoring case. A requested name is only ever a key into this list. */
export function findLog<T extends { name: string }>(logs: readonly T[], name: string): T {
  const wanted = name.toLowerCase();
  const found =
    logs.find((log) => log.name === name) ?? logs.find((log) => log.name.toLowerCase() === wanted);
  if (found === undefined) throw logNotFound(name);
  return found;
}
