import type { LogLevel } from '../../../../protocol/index.ts';
import type { LogSearch } from './log-search.ts';
import { shorterPreset } from './time-range.ts';

interface Narrowing {
  label: string;
  change: Partial<LogSearch>;
}

const GRAVE: LogLevel[] = ['critical', 'error'];

/** Changes that make a query quicker, for one that took too long. */
export function narrowings(search: LogSearch): Narrowing[] {
  const found: Narrowing[] = [];
  const shorter = search.from === undefined && search.to === undefined ? shorterPreset(search) : undefined;
  if (shorter !== undefined) found.push({ label: shorter.label, change: { range: shorter.value } });
  if (search.level === undefined) found.push({ label: 'Critical and error only', change: { level: GRAVE } });
  // A device that looks for a text reads until it has found a page of it.
  if (search.text !== undefined) found.push({ label: 'Without the text', change: { text: undefined } });
  return found;
}
