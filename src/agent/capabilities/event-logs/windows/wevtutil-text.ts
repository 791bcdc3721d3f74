import type { LogConditions } from '../../../../protocol/index.ts';
import { windowsLevels } from './event-xml.ts';

/** What wevtutil is asked, and its plain-text answers. */

/**
 * The conditions that the event log can check itself. Only numbers and instants get into the expression, never text of
 * the asker: source and text are compared on the entries.
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
  // The log keeps 100 ns; an end of .123 includes all of that millisecond.
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

/** Lines of `name: value`, as `wevtutil gli` and `gl` print them. */
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

/** The logs that are listed; the hundreds of analytic channels stay reachable by name. */
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
