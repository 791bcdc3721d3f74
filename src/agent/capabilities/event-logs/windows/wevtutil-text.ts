import type { LogConditions, LogLevel } from '../../../../protocol/index.ts';
import { AUDIT_FAILURE, HIGHEST_LEVEL, windowsLevels } from './event-xml.ts';

/** The queries for wevtutil, and a parser for its plain-text output. */

export interface XPathOptions {
  /** The exact names of the providers that the condition on the source means. */
  providers?: readonly string[] | undefined;
  afterRecord?: number;
}

/**
 * The conditions that the event log can check itself. Text is compared on the entries, because the log does not hold the
 * messages: Windows makes each from the texts of its provider, which takes a thousand times longer than reading it.
 */
export function eventXPath(conditions: LogConditions, options: XPathOptions = {}): string {
  const terms: string[] = [];
  const providers = quotedNames(options.providers);
  if (providers !== undefined) terms.push(`Provider[${anyOf(providers.map((name) => `@Name=${name}`))}]`);
  if (conditions.level !== undefined) terms.push(levelTerm(conditions.level));
  if (conditions.eventId !== undefined) terms.push(`(EventID=${conditions.eventId})`);
  const times: string[] = [];
  if (conditions.startTime !== undefined) times.push(`@SystemTime>='${instant(conditions.startTime)}'`);
  // The log stores units of 100 ns, so an end of .123 must include that whole millisecond.
  if (conditions.endTime !== undefined) times.push(`@SystemTime<='${instant(conditions.endTime, '9999')}'`);
  if (times.length > 0) terms.push(`TimeCreated[${times.join(' and ')}]`);
  if (options.afterRecord !== undefined) terms.push(`(EventRecordID>${options.afterRecord})`);
  return terms.length === 0 ? '*' : `*[System[${terms.join(' and ')}]]`;
}

/** Whether the expression selects exactly the entries that match, so that none of them has to be looked at. */
export function isExact(conditions: LogConditions, providers: readonly string[] | undefined): boolean {
  if (conditions.text !== undefined) return false;
  if (conditions.source !== undefined && quotedNames(providers) === undefined) return false;
  const level = conditions.level ?? [];
  // XPath has no negation here, so failed audits cannot be left out of the information.
  return !level.includes('information') || level.includes('warning');
}

function levelTerm(levels: readonly LogLevel[]): string {
  const terms = windowsLevels(levels).map((level) => `Level=${level}`);
  if (levels.includes('information')) terms.push(`Level>${HIGHEST_LEVEL}`);
  else if (levels.includes('warning')) {
    const informative = windowsLevels(['information']).map((level) => `Level=${level}`);
    terms.push(
      `((${anyOf([...informative, `Level>${HIGHEST_LEVEL}`])}) and band(Keywords,${AUDIT_FAILURE}))`,
    );
  }
  return `(${anyOf(terms)})`;
}

const anyOf = (terms: readonly string[]) => terms.join(' or ');

/** `undefined` where there are none, or XPath cannot write one: it has no escapes for a name with both kinds of quotes. */
function quotedNames(names: readonly string[] | undefined): string[] | undefined {
  if (names === undefined || names.length === 0) return undefined;
  if (names.some((name) => name.includes("'") && name.includes('"'))) return undefined;
  return names.map((name) => (name.includes("'") ? `"${name}"` : `'${name}'`));
}

function instant(text: string, more = ''): string {
  return new Date(text).toISOString().replace('Z', `${more}Z`);
}

/** The records with these ids: at most some twenty, because Windows refuses longer expressions. */
export function recordsXPath(recordIds: readonly number[]): string {
  return `*[System[(${anyOf(recordIds.map((id) => `EventRecordID=${id}`))})]]`;
}

export const RECORDS_PER_XPATH = 20;

/** The records whose ids are too large to be shown as they are. */
export const FOLDED_XPATH = `*[System[(EventRecordID>${Number.MAX_SAFE_INTEGER})]]`;

/** Parses lines of `name: value`, as `wevtutil gli` and `gl` print them. */
export function parseProperties(text: string): Map<string, string> {
  const properties = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const at = line.indexOf(':');
    if (at > 0) properties.set(line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim());
  }
  return properties;
}

/** Parses the names that `wevtutil el` and `ep` print, one a line. */
export function parseNames(text: string): string[] {
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && line.length <= 255);
}

/** A name that wevtutil takes for a log: not an option, and in one line. */
export function isLogName(name: string): boolean {
  return /^[^/\-\p{Cc}"][^\p{Cc}"]*$/u.test(name);
}

const FIRST = ['application', 'system', 'security', 'setup'];

/** The logs worth a look, the usual ones first. The hundreds of analytic channels can still be read by name. */
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
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}
