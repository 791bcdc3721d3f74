import { clock } from '../../../clock.ts';
import { VssErrorCode, type VssStatus } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { readOutput } from '../../os/processes/child-process.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import { overallStatus, parseProviders, parseWriters } from './vssadmin-text.ts';

/** The programs of Windows that are asked. Full paths, or names that are looked up on the search path. */
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
    // A program that was stopped has printed a part of the truth.
    signal.throwIfAborted();
    return output;
  };
  for (let attempt = 1; ; attempt += 1) {
    const writers = parseWriters(await list('writers'));
    if (writers.length > 0 || attempt === TRIES) {
      if (writers.length === 0 && !(await isElevated(programs, signal))) throw elevationNeeded();
      return { status: overallStatus(writers), writers, providers: parseProviders(await list('providers')) };
    }
    await clock.sleep(pauseMs, { signal });
  }
}
/** The query ends earlier. */
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
