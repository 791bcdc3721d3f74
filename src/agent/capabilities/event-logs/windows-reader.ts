import { clock } from '../../../../clock.ts';
import type { LogEntry, LogMetadata, LogQuery, LogQuerySummary } from '../../../../protocol/index.ts';
import { logNotFound, recordNotFound } from '../../../core/agent-error.ts';
import { readOutput, streamText } from '../../../os/processes/child-process.ts';
import { entryMatcher } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { inBatches, pageOf } from '../page.ts';
import { sayOmitted, type EventLogReader } from '../reader.ts';
import { ScanReport } from '../scan-report.ts';
import { EventSplitter } from './event-splitter.ts';
import { parseEventXml, windowsEncoding } from './event-xml.ts';
import { countOf, readLogStates, timeOf, type LogState, type ReadLogStates } from './log-states.ts';
import {
  eventXPath,
  FOLDED_XPATH,
  isExact,
  isLogName,
  listedLogs,
  parseNames,
  parseProperties,
  RECORDS_PER_XPATH,
  recordsXPath,
} from './wevtutil-text.ts';

const TAIL_POLL_MS = 2_000;
const PROVIDERS_KEPT_MS = 600_000;
const STATE_READERS = 8;
const LISTED_MAX = 60;

/** `plain` has no messages and is a thousand times faster. */
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

  /** Throws `LOG_NOT_FOUND`. Most queries cost less than this, so it is asked only where nothing was found. */
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
      const entries = found.flatMap((xml) => parseEventXml(xml) ?? []);
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
      throw error;
    }
  }

  let known: { names: readonly string[]; at: number } | undefined;
  /** The names of the providers that differ from the source only in their case; `undefined` where none is known. */
  async function providersOf(
    source: string | undefined,
    signal: AbortSignal,
  ): Promise<readonly string[] | undefined> {
    if (source === undefined) return undefined;
    if (known === undefined || clock.monotonic() - known.at > PROVIDERS_KEPT_MS) {
      // Without the list, the sources of all events are compared here.
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

  /** Where PowerShell cannot be used: one process a log, and no sizes. */
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

  /** Puts the messages into entries that were read without. */
  async function* withMessages(
    name: string,
    entries: readonly LogEntry[],
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry, void> {
    for (let at = 0; at < entries.length && !signal.aborted; at += RECORDS_PER_XPATH) {
      const some = entries.slice(at, at + RECORDS_PER_XPATH);
      const xpath = recordsXPath(some.map(({ recordId }) => recordId));
      const rendered = new Map<number, LogEntry>();
      try {
        for await (const entry of events({ name, xpath, rendering: 'rendered' }, signal)) {
          rendered.set(entry.recordId, entry);
        }
      } catch {
        // An entry without its message still has its data.
      }
      for (const entry of some) {
        const full = rendered.get(entry.recordId);
        yield full?.timeCreated === entry.timeCreated ? full : entry;
      }
    }
  }

  async function* selected(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary> {
    const providers = await providersOf(query.source, signal);
    const xpath = eventXPath(query, { providers });
    const exact = isExact(query, providers);
    const isFirstPage = exact && query.page === 1;
    // A text can only be looked for in the messages, so those of all other matches are rendered.
    if (query.text === undefined && !isFirstPage) return yield* pageRendered({ query, xpath, exact }, signal);
    const report = new ScanReport();
    const more = ['/rd:true', ...(isFirstPage ? [`/c:${query.limit}`] : [])];
    const selection: EventSelection = { name: query.name, xpath, rendering: 'rendered', more };
    return yield* pageOf(inBatches(events(selection, signal, report), 32), query, signal, { report });
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
    return signal.aborted ? { scanned: step.value.scanned, truncated: true } : step.value;
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
      const matches = entryMatcher(tail);
      const providers = await providersOf(tail.source, signal);
      let last = 0;
      const newest: EventSelection = { name, xpath: '*', rendering: 'plain', more: ['/rd:true', '/c:1'] };
      for await (const entry of events(newest, signal)) last = entry.recordId;
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
