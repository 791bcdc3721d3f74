import { clock } from '../../clock.ts';
import {
  VssErrorCode,
  type VssStatus,
  VSS_PROVIDERS_MAX,
  VSS_WRITERS_MAX,
  type VssProvider,
  type VssWriter,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { readOutput } from '../os/child-process.ts';
import type { LiveHandlers } from '../work/live-runner.ts';
import { firstCharacters } from '../core/plain-text.ts';

/** The Windows programs to run: full paths, or names that are looked up on the search path. */
export interface ShadowCopyPrograms {
  vssadmin: string;
  whoami: string;
}

const OUTPUT_MAX = 1_000_000;
/** The list is empty for a moment while the service of the writers starts. */
const TRIES = 3;
const PAUSE_MS = 1500;
/** The integrity levels of an administrator's and of the system's own processes, the same in every language. */
const ELEVATED = /\bS-1-16-(?:12288|16384)\b/;

/** Live queries about shadow copies. Only for Windows: other agents do not have this capability. */
export const shadowCopyHandlers = (programs: ShadowCopyPrograms, pauseMs = PAUSE_MS): LiveHandlers => ({
  'backup.vss-status': async (_payload, { signal, timeUp }) => {
    const ends = AbortSignal.any([signal, timeUp]);
    try {
      return await readStatus(programs, ends, pauseMs);
    } catch (error) {
      if (timeUp.aborted && !signal.aborted) throw timedOut();
      if (error instanceof AgentError || signal.aborted) throw error;
      if (!(await isElevated(programs, ends))) throw elevationNeeded();
      throw new AgentError(VssErrorCode.failed, error instanceof Error ? error.message : String(error));
    }
  },
});

async function readStatus(
  programs: ShadowCopyPrograms,
  signal: AbortSignal,
  pauseMs: number,
): Promise<VssStatus> {
  const list = async (what: 'writers' | 'providers') => {
    const output = await readOutput(programs.vssadmin, ['list', what], {
      signal,
      timeoutMs: LONGEST_MS,
      maxLength: OUTPUT_MAX,
    });
    // The output of a program that was stopped is incomplete.
    signal.throwIfAborted();
    return output;
  };
  for (let attempt = 1; ; attempt += 1) {
    const writers = parseWriters(await list('writers'));
    if (writers.length > 0 || attempt === TRIES) {
      if (writers.length === 0 && !(await isElevated(programs, signal))) throw elevationNeeded();
      return vssStatus(writers, parseProviders(await list('providers')));
    }
    await clock.sleep(pauseMs, { signal });
  }
}

/** As many writers and providers as fit into a message, and their number if there are more. All writers are counted. */
export const vssStatus = (writers: readonly VssWriter[], providers: readonly VssProvider[]): VssStatus => ({
  status: overallStatus(writers),
  writers: writers.slice(0, VSS_WRITERS_MAX),
  ...(writers.length > VSS_WRITERS_MAX ? { writerCount: writers.length } : {}),
  providers: providers.slice(0, VSS_PROVIDERS_MAX),
  ...(providers.length > VSS_PROVIDERS_MAX ? { providerCount: providers.length } : {}),
});

/** The programs are stopped before the deadline of the query. */
const LONGEST_MS = 60_000;

async function isElevated({ whoami }: ShadowCopyPrograms, signal: AbortSignal): Promise<boolean> {
  const groups = await readOutput(whoami, ['/groups'], { signal, maxLength: OUTPUT_MAX }).catch(() => '');
  return ELEVATED.test(groups);
}

const elevationNeeded = () =>
  new AgentError(
    VssErrorCode.elevationNeeded,
    'The agent runs without the rights of an administrator, which Windows asks for to list shadow copy writers.',
  );

const timedOut = () =>
  new AgentError(
    VssErrorCode.timedOut,
    'Windows has not listed its shadow copy writers in time. One of them may hang.',
  );

/**
 * Reads what `vssadmin list` prints. Its words are in the language of the machine, so only its structure is relied on: a
 * block for each entry, ids in braces, and the number of the state in brackets.
 */

const GUID = /\{([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}/i;
const STATE = /\[\s*(\d{1,3})\s*\]/;
const VERSION = /^\d{1,9}(?:\.\d{1,9}){1,5}$/;

export function parseWriters(text: string): VssWriter[] {
  return [...blocksOf(text)].flatMap((block) => writerOf(block) ?? []);
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
const valueOf = (line: string) => line.slice(line.search(/[:\uff1a]/) + 1).trim();

/** Each language has quotation marks of its own, some with spaces. */
const unquoted = (name: string) =>
  name
    .replace(/^["'«»\u201e\u201c\u201d\u2018\u2019\u300c\u300d\u300e\u300f\s]+/u, '')
    .replace(/["'«»\u201e\u201c\u201d\u2018\u2019\u300c\u300d\u300e\u300f\s]+$/u, '');
