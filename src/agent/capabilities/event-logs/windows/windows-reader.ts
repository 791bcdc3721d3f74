import { clock } from '../../../../clock.ts';
import type { LogEntry, LogMetadata } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import { readOutput, streamText } from '../../../os/processes/child-process.ts';
import { entryMatcher } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { inBatches, pageOf } from '../page.ts';
import type { EventLogReader } from '../reader.ts';
import { EventSplitter, parseEventXml, windowsEncoding } from './event-xml.ts';
import { eventXPath, listedLogs, parseLogNames, parseProperties, recordXPath } from './wevtutil-text.ts';

const TAIL_POLL_MS = 2_000;

/** Reads Windows event logs with wevtutil, which is part of every supported Windows release. */
export function windowsReader(command = 'wevtutil.exe'): EventLogReader {
  const read = (args: readonly string[], signal: AbortSignal) =>
    readOutput(command, [...args, '/uni:true'], { signal, decode: windowsEncoding });

  async function* events(args: readonly string[], signal: AbortSignal): AsyncGenerator<LogEntry, void> {
    const splitter = new EventSplitter();
    const options = { signal, decode: windowsEncoding };
    for await (const text of streamText(command, [...args, '/f:RenderedXml', '/uni:true'], options)) {
      for (const xml of splitter.add(text)) {
        const entry = parseEventXml(xml);
        if (entry !== undefined) yield entry;
      }
    }
  }

  async function names(signal: AbortSignal): Promise<{ name: string }[]> {
    return parseLogNames(await read(['el'], signal)).map((name) => ({ name }));
  }

  async function describe(name: string, signal: AbortSignal): Promise<LogMetadata> {
    let note: string | undefined;
    const properties = async (verb: string) =>
      parseProperties(
        await read([verb, name], signal).catch(() => {
          note =
            'Windows did not let the agent read what it keeps about this log; it may need higher rights.';
          return '';
        }),
      );
    const [state, settings] = await Promise.all([properties('gli'), properties('gl')]);
    const written = new Date(state.get('lastwritetime') ?? '');
    return {
      name,
      displayName: name,
      recordCount: count(state.get('numberoflogrecords')),
      maxSize: count(settings.get('maxsize')),
      retentionDays: 0,
      lastWriteTime: Number.isNaN(written.getTime()) ? '' : written.toISOString(),
      source: 'windows',
      ...(note !== undefined && { note }),
    };
  }

  return {
    async list(signal) {
      const listed = listedLogs((await names(signal)).map(({ name }) => name));
      const described: LogMetadata[] = [];
      for (let at = 0; at < listed.length; at += 4) {
        described.push(
          ...(await Promise.all(listed.slice(at, at + 4).map((name) => describe(name, signal)))),
        );
      }
      return described;
    },
    async get(name, signal) {
      return describe(findLog(await names(signal), name).name, signal);
    },
    async *query(query, signal) {
      const { name } = findLog(await names(signal), query.name);
      const args = ['qe', name, `/q:${eventXPath(query)}`, '/rd:true'];
      // Where Windows checks all conditions itself, it does not need to read beyond the page.
      if (query.source === undefined && query.text === undefined) {
        args.push(`/c:${query.page * query.limit + 1}`);
      }
      return yield* pageOf(inBatches(events(args, signal), 32), query, signal);
    },
    async record(name, recordId, signal) {
      const log = findLog(await names(signal), name);
      for await (const entry of events(['qe', log.name, `/q:${recordXPath(recordId)}`, '/c:1'], signal)) {
        if (entry.recordId === recordId) return entry;
      }
      throw recordNotFound(log.name, recordId);
    },
    async *tail(tail, signal) {
      const { name } = findLog(await names(signal), tail.name);
      const matches = entryMatcher(tail);
      let last = 0;
      for await (const entry of events(['qe', name, '/q:*', '/rd:true', '/c:1'], signal)) {
        last = entry.recordId;
      }
      while (!signal.aborted) {
        await clock.sleep(TAIL_POLL_MS, { signal }).catch(() => undefined);
        if (signal.aborted) return;
        for await (const entry of events(['qe', name, `/q:${eventXPath({}, last)}`, '/rd:false'], signal)) {
          last = Math.max(last, entry.recordId);
          if (matches(entry)) yield entry;
        }
      }
    },
  };
}

function count(text: string | undefined): number {
  const value = Number(text ?? 0);
  return Number.isSafeInteger(value) && value >= 0 ? value : 0;
}
