import {
  VSS_PROVIDERS_MAX,
  VSS_WRITERS_MAX,
  type VssProvider,
  type VssStatus,
  type VssWriter,
} from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';

/**
 * Reads what `vssadmin list` prints. Its words are in the language of the machine, so that only its form is relied on: a
 * block for each entry, ids in braces, and the number of the state in brackets.
 */

const GUID = /\{([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}/i;
const STATE = /\[\s*(\d{1,3})\s*\]/;
const VERSION = /^\d{1,9}(?:\.\d{1,9}){1,5}$/;

export function parseWriters(text: string): VssWriter[] {
  const writers: VssWriter[] = [];
  for (const block of blocksOf(text)) {
    const writer = writerOf(block);
    if (writer !== undefined) writers.push(writer);
    if (writers.length === VSS_WRITERS_MAX) break;
  }
  return writers;
}

function writerOf([first = '', ...rest]: readonly string[]): VssWriter | undefined {
  const ids = rest.flatMap((line) => GUID.exec(line)?.[1]?.toLowerCase() ?? []);
  const at = rest.findIndex((line) => STATE.test(line) && !GUID.test(line));
  const [writerId, instanceId = null] = ids;
  if (writerId === undefined || at === -1) return undefined;
  const state = Number(STATE.exec(rest[at] ?? '')?.[1]);
  if (state > 255) return undefined;
  return {
    name: firstCharacters(unquoted(valueOf(first)), 255),
    writerId,
    instanceId,
    state,
    status: statusOf(state),
    lastError: firstCharacters(valueOf(rest[at + 1] ?? ''), 500),
  };
}

/** By the numbers of VSS_WRITER_STATE. */
function statusOf(state: number): VssWriter['status'] {
  if (state === 1) return 'stable';
  if (state >= 2 && state <= 5) return 'waiting';
  return state >= 6 && state <= 15 ? 'failed' : 'unknown';
}

export function parseProviders(text: string): VssProvider[] {
  const providers: VssProvider[] = [];
  for (const [first = '', ...rest] of blocksOf(text)) {
    const at = rest.findIndex((line) => GUID.test(line));
    const providerId = GUID.exec(rest[at] ?? '')?.[1]?.toLowerCase();
    if (providerId === undefined || rest.some((line) => STATE.test(line))) continue;
    const version = rest
      .slice(at + 1)
      .map(valueOf)
      .find((value) => VERSION.test(value));
    providers.push({
      name: firstCharacters(unquoted(valueOf(first)), 255),
      providerId,
      type: firstCharacters(at > 0 ? valueOf(rest[at - 1] ?? '') : '', 255),
      version: version ?? '',
    });
    if (providers.length === VSS_PROVIDERS_MAX) break;
  }
  return providers;
}

export function overallStatus(writers: readonly Pick<VssWriter, 'status'>[]): VssStatus['status'] {
  if (writers.some(({ status }) => status === 'failed')) return 'failed';
  if (writers.length === 0 || writers.some(({ status }) => status === 'unknown')) return 'unknown';
  return writers.some(({ status }) => status === 'waiting') ? 'busy' : 'ready';
}

/** Groups of lines: one that begins at the margin, and the indented ones below it. */
function* blocksOf(text: string): Generator<string[], void> {
  let block: string[] = [];
  for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    if (line.trim() === '') continue;
    if (!/^\s/.test(line)) {
      if (block.length > 1) yield block;
      block = [];
    }
    block.push(line);
  }
  if (block.length > 1) yield block;
}

/** After the first colon, which is a wide one in Chinese and Japanese. */
const valueOf = (line: string) => line.slice(line.search(/[:：]/) + 1).trim();

/** Each language has quotation marks of its own, some with spaces. */
const unquoted = (name: string) =>
  name.replace(/^["'«»„“”‘’「」『』\s]+/u, '').replace(/["'«»„“”‘’「」『』\s]+$/u, '');
