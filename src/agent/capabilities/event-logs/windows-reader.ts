import { clock } from '../../../clock.ts';
import {
  AgentErrorCode,
  type LogConditions,
  type LogEntry,
  type LogMetadata,
  type LogQuery,
  type LogQuerySummary,
  type LogTail,
} from '../../../protocol/index.ts';
import { AgentError, logNotFound, recordNotFound } from '../../core/agent-error.ts';
import { ChildFailure, readOutput, streamText } from '../../os/child-process.ts';
import { EventSplitter, NO_MESSAGE, parseEventXml, windowsEncoding } from './event-xml.ts';
import {
  entryMatcher,
  sayOmitted,
  type EventLogReader,
  findLog,
  ScanReport,
  inBatches,
  pageOf,
} from './log-reader.ts';
import { countOf, type LogState, type ReadLogStates, readLogStates, timeOf } from './windows-log-states.ts';
import { eventXPath, FOLDED_XPATH, isExact, RECORDS_PER_XPATH, recordsXPath } from './windows-xpath.ts';

const TAIL_POLL_MS = 2_000;
const PROVIDERS_KEPT_MS = 600_000;
const STATE_READERS = 8;
const LISTED_MAX = 60;

/** `plain` output has no messages and is a thousand times faster. */
type Rendering = 'plain' | 'rendered';

/** Reads Windows event logs with wevtutil, which is part of every supported Windows release. */
export function windowsReader(
  command = 'wevtutil.exe',
  readStates: ReadLogStates = readLogStates,
): EventLogReader {
  const read = (args: readonly string[], signal: AbortSignal) =>
    readOutput(command, [...args, '/uni:true'], { signal, decode: windowsEncoding });

  async function names(signal: AbortSignal): Promise<{ name: string }[]> {
    return parseNames(await read(['el'], signal)).map((name) => ({ name }));
  }

  /** Throws `LOG_NOT_FOUND`. Most queries are cheaper than this check, so it runs only if nothing was found. */
  async function assertLog(name: string, signal: AbortSignal): Promise<void> {
    if (!signal.aborted) findLog(await names(signal), name);
  }

  async function* events(
    { name, xpath, rendering, more = [] }: EventSelection,
    signal: AbortSignal,
    report = new ScanReport(),
  ): AsyncGenerator<LogEntry, void> {
    if (!isLogName(name)) throw logNotFound(name);
    const splitter = new EventSplitter();
    const format = rendering === 'plain' ? '/f:XML' : '/f:RenderedXml';
    const args = ['qe', name, `/q:${xpath}`, ...more, format, '/uni:true'];
    let lost = 0;
    const entriesOf = (found: readonly string[]) => {
      const entries = found.flatMap((xml) => parseEventXml(xml, rendering === 'rendered') ?? []);
      report.unreadable += found.length - entries.length + splitter.lost - lost;
      lost = splitter.lost;
      return entries;
    };
    try {
      for await (const text of streamText(command, args, { signal, decode: windowsEncoding })) {
        yield* entriesOf(splitter.add(text));
      }
      yield* entriesOf(splitter.end());
    } catch (error) {
      await assertLog(name, signal);
      if (error instanceof ChildFailure && error.code === ACCESS_DENIED) throw accessDenied(name);
      throw error;
    }
  }

  let known: { names: readonly string[]; at: number } | undefined;
  /** The names of the providers that differ from the source only in their case; `undefined` if none is known. */
  async function providersOf(
    source: string | undefined,
    signal: AbortSignal,
  ): Promise<readonly string[] | undefined> {
    if (source === undefined) return undefined;
    if (known === undefined || clock.monotonic() - known.at > PROVIDERS_KEPT_MS) {
      // Without the list of providers, the sources of all events are compared here.
      const found = await read(['ep'], signal).catch(() => '');
      known = { names: parseNames(found), at: clock.monotonic() };
    }
    const wanted = source.toLowerCase();
    const same = known.names.filter((name) => name.toLowerCase() === wanted);
    return same.length === 0 ? undefined : same;
  }

  async function stateOf(
    name: string,
    signal: AbortSignal,
  ): Promise<LogState & { name: string | undefined }> {
    const properties = async (verb: string) => parseProperties(await read([verb, name], signal));
    const [state, settings] = await Promise.all([
      properties('gli'),
      properties('gl').catch(() => new Map<string, string>()),
    ]);
    return {
      name: settings.get('name'),
      recordCount: countOf(state.get('numberoflogrecords')),
      maxSize: countOf(settings.get('maxsize')),
      lastWriteTime: timeOf(state.get('lastwritetime')),
    };
  }

  /** Fallback without PowerShell: one process per log, and no sizes. */
  async function statesOneByOne(listed: readonly string[], signal: AbortSignal) {
    const states = new Map<string, LogState>();
    const left = [...listed];
    const worker = async () => {
      for (let name = left.shift(); name !== undefined; name = left.shift()) {
        const state = await read(['gli', name], signal).then(parseProperties, () => undefined);
        if (state === undefined) continue;
        states.set(name, {
          recordCount: countOf(state.get('numberoflogrecords')),
          maxSize: 0,
          lastWriteTime: timeOf(state.get('lastwritetime')),
        });
      }
    };
    await Promise.all(Array.from({ length: STATE_READERS }, worker));
    return states;
  }

  /** Adds the messages to entries that were read without them. Those that cannot be had in time keep their data. */
  async function* withMessages(
    name: string,
    entries: readonly LogEntry[],
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry, void> {
    for (let at = 0; at < entries.length; at += RECORDS_PER_XPATH) {
      const some = entries.slice(at, at + RECORDS_PER_XPATH);
      const rendered = signal.aborted ? new Map<number, LogEntry>() : await renderedById(name, some, signal);
      for (const entry of some) {
        const full = rendered.get(entry.recordId);
        yield full?.timeCreated === entry.timeCreated ? full : entry;
      }
    }
  }

  async function renderedById(name: string, entries: readonly LogEntry[], signal: AbortSignal) {
    const xpath = recordsXPath(entries.map(({ recordId }) => recordId));
    const rendered = new Map<number, LogEntry>();
    try {
      for await (const entry of events({ name, xpath, rendering: 'rendered' }, signal)) {
        rendered.set(entry.recordId, entry);
      }
    } catch {
      // An entry without its message still has its data.
    }
    return rendered;
  }

  async function* selected(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary> {
    const providers = await providersOf(query.source, signal);
    const xpath = eventXPath(query, { providers });
    const exact = isExact(query, providers);
    const isFirstPage = exact && query.page === 1;
    // Text can only be searched in the messages, so the messages of all other matches are rendered.
    if (query.text === undefined && !isFirstPage) return yield* pageRendered({ query, xpath, exact }, signal);
    const report = new ScanReport();
    const more = ['/rd:true', ...(isFirstPage ? [`/c:${query.limit}`] : [])];
    const selection: EventSelection = { name: query.name, xpath, rendering: 'rendered', more };
    const matches = textMatcher(query);
    return yield* pageOf(inBatches(events(selection, signal, report), 32), query, signal, {
      report,
      matches,
    });
  }

  /** Renders only the messages of the page. */
  async function* pageRendered(
    { query, xpath, exact }: { query: LogQuery; xpath: string; exact: boolean },
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry, LogQuerySummary> {
    const { name, page, limit } = query;
    const report = new ScanReport();
    const more = ['/rd:true', ...(exact ? [`/c:${page * limit}`] : [])];
    const source = inBatches(events({ name, xpath, rendering: 'plain', more }, signal, report), 32);
    const shown: LogEntry[] = [];
    const selected = pageOf(source, query, signal, { report });
    let step = await selected.next();
    for (; step.done !== true; step = await selected.next()) shown.push(step.value);
    yield* withMessages(name, shown, signal);
    if (!signal.aborted) return step.value;
    const { total: _total, ...summary } = step.value;
    return { ...summary, truncated: true };
  }

  /** Compares the newest events of each look with those of the look before, because their record ids have no order. */
  async function* tailForwarded(
    tail: LogTail,
    providers: readonly string[] | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry, void> {
    const xpath = eventXPath(tail, { providers });
    const more = ['/rd:true', `/c:${FORWARDED_MAX}`];
    const matches = textMatcher(tail);
    let known: ReadonlySet<string> | undefined;
    while (!signal.aborted) {
      const found: LogEntry[] = [];
      for await (const entry of events({ name: tail.name, xpath, rendering: 'plain', more }, signal)) {
        found.push(entry);
      }
      const fresh = known === undefined ? [] : found.filter((entry) => known?.has(originOf(entry)) === false);
      for await (const entry of withMessages(tail.name, fresh.toReversed(), signal)) {
        if (matches(entry)) yield entry;
      }
      known = new Set(found.map(originOf));
      await clock.sleep(TAIL_POLL_MS, { signal }).catch(() => undefined);
    }
  }

  return {
    async list(signal) {
      const all = listedLogs((await names(signal)).map(({ name }) => name));
      const listed = all.slice(0, LISTED_MAX);
      const states = await readStates(listed, signal).catch(() => statesOneByOne(listed, signal));
      const logs = listed.map((name) => metadataOf(name, states.get(name)));
      return sayOmitted(logs, all.length - listed.length);
    },
    async get(name, signal) {
      if (!isLogName(name)) throw logNotFound(name);
      const state = await stateOf(name, signal).catch(() => undefined);
      const own = state?.name ?? findLog(await names(signal), name).name;
      return metadataOf(own, state);
    },
    async *query(query, signal) {
      const summary = yield* selected(query, signal);
      if (summary.scanned === 0) await assertLog(query.name, signal);
      return summary;
    },
    async record(name, recordId, signal) {
      for (const xpath of [recordsXPath([recordId]), FOLDED_XPATH]) {
        for await (const entry of events({ name, xpath, rendering: 'rendered' }, signal)) {
          if (entry.recordId === recordId) return entry;
        }
      }
      await assertLog(name, signal);
      throw recordNotFound(name, recordId);
    },
    async *tail(tail, signal) {
      const { name } = tail;
      const matches = textMatcher(tail);
      const providers = await providersOf(tail.source, signal);
      let last = 0;
      let hasForwarded = name.toLowerCase() === FORWARDED_LOG;
      const newest: EventSelection = { name, xpath: '*', rendering: 'plain', more: ['/rd:true', '/c:1'] };
      for await (const entry of events(newest, signal)) {
        last = entry.recordId;
        hasForwarded ||= isForwarded(name, entry);
      }
      if (hasForwarded) {
        yield* tailForwarded(tail, providers, signal);
        return;
      }
      if (last === 0) await assertLog(name, signal);
      while (!signal.aborted) {
        await clock.sleep(TAIL_POLL_MS, { signal }).catch(() => undefined);
        if (signal.aborted) return;
        const xpath = eventXPath(tail, { providers, afterRecord: last });
        const selection: EventSelection = { name, xpath, rendering: 'rendered', more: ['/rd:false'] };
        for await (const entry of events(selection, signal)) {
          last = Math.max(last, entry.recordId);
          if (matches(entry)) yield entry;
        }
      }
    },
  };
}

/** ERROR_ACCESS_DENIED. The text that comes with it is in the language of the machine. */
const ACCESS_DENIED = 5;

const accessDenied = (name: string) =>
  new AgentError(AgentErrorCode.failed, `Windows does not let the agent read the log '${name}'.`);

/** The text is searched in what the event says, and not in the remark that its message is missing. */
const textMatcher = (conditions: LogConditions) =>
  entryMatcher(conditions, ({ message }) => message.replace(NO_MESSAGE, ''));

/** The log for events of other computers, which may be empty at first. Collectors can have others for them. */
const FORWARDED_LOG = 'forwardedevents';

/** An event of another computer keeps the channel and the record id that it has there. */
const isForwarded = (log: string, { rawXml = '' }: LogEntry): boolean => {
  const channel = /<Channel>([^<]*)/.exec(rawXml)?.[1];
  return channel !== undefined && channel !== '' && channel.toLowerCase() !== log.toLowerCase();
};

/** How many forwarded events may arrive between two looks. */
const FORWARDED_MAX = 200;

const originOf = ({ computer, recordId, timeCreated, source }: LogEntry) =>
  [computer, recordId, timeCreated, source].join('\0');

interface EventSelection {
  name: string;
  xpath: string;
  rendering: Rendering;
  /** Further arguments. */
  more?: readonly string[];
}

function metadataOf(name: string, state: LogState | undefined): LogMetadata {
  return {
    name,
    displayName: name,
    recordCount: state?.recordCount ?? 0,
    maxSize: state?.maxSize ?? 0,
    retentionDays: 0,
    lastWriteTime: state?.lastWriteTime ?? '',
    source: 'windows',
    ...(state === undefined && {
      note: 'Windows did not let the agent read what it keeps about this log; it may need higher rights.',
    }),
  };
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

/** Parses the names that `wevtutil el` and `ep` print, one per line. */
export function parseNames(text: string): string[] {
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && line.length <= 255);
}

/** A name that wevtutil accepts as a log: a single line that is not an option. */
export function isLogName(name: string): boolean {
  return /^[^/\-\p{Cc}"][^\p{Cc}"]*$/u.test(name);
}

const FIRST = ['application', 'system', 'security', 'setup'];

/** The listed logs, the usual ones first. The hundreds of analytic channels can still be read by name. */
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
