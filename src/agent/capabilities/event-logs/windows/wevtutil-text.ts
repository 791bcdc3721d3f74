import type { LogConditions } from '../../../../protocol/index.ts';
import { windowsLevels } from './event-xml.ts';

/** The queries for wevtutil, and a parser for its plain-text output. */

/**
 * The conditions that the event log can check itself. The expression holds numbers and times only, never text of the
 * caller: source and text are compared on the entries.
 */
export function eventXPath(conditions: LogConditions, afterRecord?: number): string {
  const terms: string[] = [];
  if (conditions.level !== undefined) {
    terms.push(
      `(${windowsLevels(conditions.level)
        .map((level) => `Level=${level}`)
        .join(' or ')})`,
    );
  }
  if (conditions.eventId !== undefined) terms.push(`(EventID=${conditions.eventId})`);
  const times: string[] = [];
  if (conditions.startTime !== undefined) times.push(`@SystemTime>='${instant(conditions.startTime)}'`);
  // The log stores units of 100 ns, so an end of .123 must include that whole millisecond.
  if (conditions.endTime !== undefined) times.push(`@SystemTime<='${instant(conditions.endTime, '9999')}'`);
  if (times.length > 0) terms.push(`TimeCreated[${times.join(' and ')}]`);
  if (afterRecord !== undefined) terms.push(`(EventRecordID>${afterRecord})`);
  return terms.length === 0 ? '*' : `*[System[${terms.join(' and ')}]]`;
}

function instant(text: string, more = ''): string {
  return new Date(text).toISOString().replace('Z', `${more}Z`);
}

export function recordXPath(recordId: number): string {
  return `*[System[(EventRecordID=${recordId})]]`;
}

/** Parses lines of `name: value`, as `wevtutil gli` and `gl` print them. */
export function parseProperties(text: string): Map<string, string> {
  const properties = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const at = line.indexOf(':');
    if (at > 0) properties.set(line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim());
  }
  return properties;
}

export function parseLogNames(text: string): string[] {
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && line.length <= 255);
}

const FIRST = ['application', 'system', 'security', 'setup'];

/** The logs that are listed. The hundreds of analytic channels can still be read by name. */
export function listedLogs(names: readonly string[]): string[] {
  const rank = (name: string) => {
    const at = FIRST.indexOf(name.toLowerCase());
    return at === -1 ? FIRST.length : at;
  };
  return names
    .filter(
      (name) =>
        !name.includes('/') ||
        /^Microsoft-Windows-(?:TaskScheduler|WindowsUpdateClient|GroupPolicy|Windows Defender|PowerShell|TerminalServices-\w+|NetworkProfile)\/Operational$/.test(
          name,
        ),
    )
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .slice(0, 60);
}
