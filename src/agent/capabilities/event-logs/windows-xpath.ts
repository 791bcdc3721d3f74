import type { LogConditions, LogLevel } from '../../../protocol/index.ts';
import { AUDIT_FAILURE, HIGHEST_LEVEL, windowsLevels } from './event-xml.ts';

/** The queries for `wevtutil`, in the part of XPath 1.0 that the event log knows. */

interface XPathOptions {
  /** The exact names of the providers that the condition on the source means. */
  providers?: readonly string[] | undefined;
  afterRecord?: number;
}

/**
 * The conditions that the event log can check itself. Text is compared on the entries, because the log does not store
 * messages: Windows renders each from the texts of its provider, which takes a thousand times longer than reading it.
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

/** Whether the expression selects exactly the matching entries, so that no entry has to be parsed. */
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

/** `undefined` if there are none, or XPath cannot write one: it has no escapes for a name with both kinds of quotes. */
function quotedNames(names: readonly string[] | undefined): string[] | undefined {
  if (names === undefined || names.length === 0) return undefined;
  if (names.some((name) => name.includes("'") && name.includes('"'))) return undefined;
  return names.map((name) => (name.includes("'") ? `"${name}"` : `'${name}'`));
}

function instant(text: string, more = ''): string {
  return new Date(text).toISOString().replace('Z', `${more}Z`);
}

/** The records with these ids: about twenty at most, because Windows refuses longer expressions. */
export function recordsXPath(recordIds: readonly number[]): string {
  return `*[System[(${anyOf(recordIds.map((id) => `EventRecordID=${id}`))})]]`;
}

export const RECORDS_PER_XPATH = 20;

/** The records whose ids are too large for JSON. */
export const FOLDED_XPATH = `*[System[(EventRecordID>${Number.MAX_SAFE_INTEGER})]]`;
