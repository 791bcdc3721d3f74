import path from 'node:path';
import { z } from 'zod';
import type { FolderLock } from '../agent/os/files/folder-lock.ts';
import { readPrivateJson, writePrivateJson } from '../agent/os/files/private-file.ts';
import { endLeftover, processMark } from '../agent/os/process-group.ts';
import { chooseRelease, currentRelease, programFile, ownPlatform } from '../agent/os/releases/layout.ts';
import {
  checkInstalled,
  afterHealthy,
  changeProven,
  provenReleases,
} from '../agent/os/releases/installed-release.ts';
import { ReleaseRefused, loadTrustedKeys, pemById } from '../agent/os/releases/release-check.ts';
import {
  readTrial,
  type Trial,
  writeTrial,
  upgradesIn,
  note,
  type UpgradeStep,
} from '../agent/os/releases/upgrade-files.ts';
import type { FromChild, InstallRequest } from '../agent/os/supervision.ts';
import { clock } from '../clock.ts';
import { EMBEDDED, selfCommand, startableScripts } from './agent-script.ts';
import { Ability } from './judge.ts';
import { endedInTrial, withOutput, countEnd, observed, recordEnd } from './observation.ts';
import { afterEnd, FIRST_START, type RestartState, type ChildEnd } from './supervised-child.ts';
import { isEnrolled, type Reporter } from './server-report.ts';
import type { WatchdogSettings } from './settings.ts';
import { carryOut, decideHealthy, decideRollback, removeOthers, removeParts } from './settle.ts';
import { type RunEnd, type RunParts, superviseOnce } from './supervised-run.ts';
import { WATCHDOG_VERSION } from './version.ts';

const Known = z.object({ pid: z.number().int().positive(), mark: z.string() });

/** The process that a killed watchdog has left running: it must end before another agent starts in the same folder. */
class LeftoverAgent {
  readonly #file: string;
  #writing: Promise<void> = Promise.resolve();

  constructor(dataDir: string) {
    this.#file = path.join(upgradesIn(dataDir), 'agent-process.json');
  }

  record(pid: number): void {
    // If the watchdog is killed before this is written, the agent exits by itself, because its channel is closed.
    this.#writing = this.#writing
      .then(async () => writePrivateJson(this.#file, { pid, mark: await processMark(pid) }))
      .catch(() => {});
  }

  async end(): Promise<void> {
    await this.#writing;
    const known = Known.safeParse(await readPrivateJson(this.#file).catch(() => undefined)).data;
    if (known !== undefined) await endLeftover(known);
  }
}

/** Writes to the console and to the local log. The default level is `info`. */
export type Log = (message: string, level?: 'info' | 'warn' | 'error') => void;

export interface WatchdogParts {
  programs: string;
  dataDir: string;
  settings: WatchdogSettings;
  reporter: Reporter;
  log: Log;
  takeLock: () => Promise<FolderLock>;
  /** Set if this watchdog is itself on trial: receives its agent's messages. It then installs and decides nothing. */
  referee?: (message: FromChild) => void;
}

const ENROLLMENT_CHECK_MS = 2000;
/** The most ends of runs of one trial that are stored in its file. */
const ENDS_KEPT = 10;

/** A check with an unknown name, from another version's file, is left out. */
const expectedOf = ({ before = [] }: Trial): Ability[] =>
  Ability.options.filter((ability) => before.includes(ability));

/** Why a run of the watchdog has ended. */
export type WatchdogEnd = 'stopped' | 'replaced';

/**
 * Keeps the agent running, installs its releases, and rolls back a release that fails. It works sequentially: a
 * program runs until it ends, and the reason of its end determines the next step.
 */
export class Watchdog {
  readonly #parts: WatchdogParts;
  readonly #leftover: LeftoverAgent;
  #restarts: RestartState = FIRST_START;
  /** The version that the running agent has reported, and how many of its heartbeats were acknowledged. */
  #running: { script: string; version: string; heartbeats: number } | undefined;

  constructor(parts: WatchdogParts) {
    this.#parts = parts;
    this.#leftover = new LeftoverAgent(parts.dataDir);
  }

  async run(signal: AbortSignal): Promise<WatchdogEnd> {
    const { dataDir, referee, takeLock, log } = this.#parts;
    let lock: FolderLock | undefined = await takeLock();
    try {
      await this.#leftover.end();
      if (referee === undefined && (await this.#reconcile())) return 'replaced';
      await this.#enrollment(signal);
      while (!signal.aborted) {
        const trial = referee === undefined ? await readTrial(dataDir) : undefined;
        if (trial?.component === 'watchdog') {
          // The other watchdog holds the lock while it is on trial.
          await lock?.release();
          lock = undefined;
          const isHealthy = await this.#refereeTrial(trial, signal);
          if (isHealthy) return 'replaced';
          lock = await takeLock();
          await this.#leftover.end();
          continue;
        }
        const end = await this.#runAgent(trial, signal);
        if (end.kind === 'install') await this.#prepareTrial(end.request, end.works);
      }
      return 'stopped';
    } catch (error) {
      log(`The watchdog stops: ${String(error)}`, 'error');
      throw error;
    } finally {
      await lock?.release();
    }
  }

  /** Waits until the machine is enrolled, so that the service may be started earlier. */
  async #enrollment(signal: AbortSignal): Promise<void> {
    const { dataDir, log } = this.#parts;
    for (let isFirst = true; !signal.aborted && !(await isEnrolled(dataDir)); isFirst = false) {
      if (isFirst) log('This machine is not enrolled. The agent is started when it is.');
      await clock.sleep(ENROLLMENT_CHECK_MS, { signal }).catch(() => {});
    }
  }

  /**
   * Completes the interrupted work of the last watchdog. Returns whether another version should run in place of this
   * one.
   */
  async #reconcile(): Promise<boolean> {
    const { dataDir, programs, log } = this.#parts;
    await removeParts(programs);
    const trial = await readTrial(dataDir);
    if (trial !== undefined) {
      log(`An upgrade of the ${trial.component} to ${trial.version} was interrupted.`, 'warn');
      if (trial.verdict !== undefined) await carryOut(this.#parts, trial);
      else if (trial.component === 'watchdog') {
        const message = 'The watchdog ended during the trial of its successor.';
        await decideRollback(this.#parts, trial, { code: 'INTERRUPTED', message });
      }
    }
    const chosen = await currentRelease(programs, 'watchdog');
    return trial?.verdict?.is === 'healthy' && trial.component === 'watchdog' && chosen !== WATCHDOG_VERSION;
  }

  async #runAgent(trial: Trial | undefined, signal: AbortSignal): Promise<RunEnd> {
    const { log, settings, reporter } = this.#parts;
    if (trial !== undefined && trial.starts >= settings.trialStarts) {
      const cause = endedInTrial(trial.starts, trial.ends ?? []);
      log(`The trial of ${trial.version} has failed: ${cause.message}`, 'warn');
      await decideRollback(this.#parts, trial, cause);
      return { kind: 'stopped' };
    }
    const counted = trial === undefined ? undefined : await this.#countStart(trial);
    const scripts =
      counted === undefined
        ? await startableScripts(this.#parts, (message) => log(message, 'warn'))
        : [counted.version];
    const script = scripts[Math.min(this.#restarts.choice, scripts.length - 1)] ?? EMBEDDED;
    const end = await this.#superviseAgent(script, counted, signal);
    switch (end.kind) {
      case 'trial_failed':
        log(`The trial of ${script} has failed: ${end.message}`, 'warn');
        if (counted !== undefined) {
          const message = withOutput(end.message, end.output ?? []);
          await decideRollback(this.#parts, counted, { code: end.code, message });
        }
        break;
      case 'stopped':
        // The machine or a user has ended this start, not the release.
        if (counted !== undefined && signal.aborted) await this.#uncount(counted);
        break;
      case 'ended':
        await this.#afterEnd(script, end.end, {
          isOnTrial: await this.#recordEnd(script, end.end),
          choices: scripts.length,
          signal,
        });
        break;
      default:
        this.#restarts = FIRST_START;
    }
    if (end.kind !== 'ended') reporter.put({ agentState: signal.aborted ? 'stopped' : 'restarting' });
    return end;
  }

  async #superviseAgent(script: string, trial: Trial | undefined, signal: AbortSignal): Promise<RunEnd> {
    const { settings, programs, dataDir, reporter, referee, log } = this.#parts;
    const running = { script, version: '', heartbeats: 0 };
    this.#running = running;
    const words = ['--release', script, '--programs', programs, 'run', '--data-dir', dataDir];
    const end = await superviseOnce({
      command: [...selfCommand(), ...words],
      settings,
      programs,
      signal,
      ...(trial === undefined ? {} : { trial: this.#trialOf(trial) }),
      mayInstall: async (request) => this.#mayInstall(request),
      on: {
        started: (pid) => this.#leftover.record(pid),
        hello: (version) => {
          running.version = version;
          log(`The agent ${version} has started.`);
          reporter.put({ agentVersion: version, agentState: 'running' });
        },
        connection: ({ isConnected, reachesServer }) => {
          reporter.connected(isConnected);
          referee?.({ type: 'connection', isConnected, reachesServer });
        },
        heartbeat: () => {
          running.heartbeats += 1;
          referee?.({ type: 'heartbeat' });
          const isProven = running.heartbeats === settings.heartbeatsInARow;
          if (isProven && trial === undefined && referee === undefined) void this.#prove(script);
        },
      },
    });
    reporter.connected(false);
    return end;
  }

  #trialOf(trial: Trial): NonNullable<RunParts['trial']> {
    const { log, reporter } = this.#parts;
    return {
      version: trial.version,
      expected: expectedOf(trial),
      isServed: () => reporter.isServed(),
      stopsWhenHealthy: false,
      healthy: async () => {
        log(`The agent ${trial.version} is healthy.`);
        await decideHealthy(this.#parts, trial);
        await removeOthers(this.#parts, 'agent', trial.version);
      },
    };
  }

  /** A release that was installed by other means and runs well becomes a target of roll-backs. */
  async #prove(script: string): Promise<void> {
    if (script === EMBEDDED) return;
    const { dataDir, log } = this.#parts;
    try {
      const { healthy } = await provenReleases(dataDir, 'agent');
      if (healthy[0] === script) return;
      await changeProven(dataDir, 'agent', (proven) => afterHealthy(proven, script));
    } catch (error) {
      log(`The healthy state of the agent ${script} could not be stored: ${String(error)}`, 'warn');
    }
  }

  /**
   * Counts the exit, and rolls back if the release exits more often than the former one. Returns whether it is on
   * trial: a process that has passed its trial keeps running, and counts as any other.
   */
  async #recordEnd(script: string, end: ChildEnd): Promise<boolean> {
    const { dataDir, referee, log } = this.#parts;
    if (referee !== undefined) return false;
    const trial = await readTrial(dataDir);
    if (trial !== undefined) {
      const { how, isSilent, output } = end;
      const ends = [...(trial.ends ?? []), { how, isSilent, output }];
      await writeTrial(dataDir, { ...trial, ends: ends.slice(-ENDS_KEPT) });
      return true;
    }
    await recordEnd(dataDir, script);
    const observation = await observed(dataDir, script);
    const cause = observation === undefined ? undefined : await countEnd(dataDir, observation, end);
    if (observation !== undefined && cause !== undefined) {
      log(`The agent ${script} is rolled back: ${cause.message}`, 'warn');
      await decideRollback(this.#parts, observation.trial, cause);
      this.#restarts = FIRST_START;
    }
    return false;
  }

  async #afterEnd(
    script: string,
    { how, ranMs, isSilent, output }: ChildEnd,
    { isOnTrial, choices, signal }: { isOnTrial: boolean; choices: number; signal: AbortSignal },
  ): Promise<void> {
    const { settings, reporter, log } = this.#parts;
    const next = afterEnd(this.#restarts, ranMs, choices, settings);
    // On trial, the number of starts decides, and no other script is started meanwhile.
    if (!isOnTrial) this.#restarts = next.state;
    const waitMs = isOnTrial ? settings.restartMs : next.waitMs;
    const isCrashLoop = next.isCrashLoop || this.#restarts.choice > 0 || this.#restarts.rounds > 0;
    const message = withOutput(`The agent (${script}) ended. ${how}`, output);
    log(`The agent (${script}) ended. ${how} It is started again in ${Math.round(waitMs)} ms.`, 'warn');
    const agentState = isSilent ? 'silent' : isCrashLoop && !isOnTrial ? 'crash_loop' : 'restarting';
    reporter.put({ agentState, message });
    await clock.sleep(waitMs, { signal }).catch(() => {});
  }

  async #mayInstall(request: InstallRequest): Promise<{ code: string; message: string } | undefined> {
    const { dataDir, referee } = this.#parts;
    if (referee !== undefined || (await readTrial(dataDir)) !== undefined) {
      return { code: 'TRIAL_RUNNING', message: 'Another release is on trial. Try again later.' };
    }
    return refusalOf(this.#parts, request);
  }

  async #prepareTrial(request: InstallRequest, before: readonly Ability[]): Promise<void> {
    const { dataDir, programs } = this.#parts;
    const { component, version, attemptId, sha256 } = request;
    const script = this.#running?.script ?? EMBEDDED;
    const isAgent = component === 'agent';
    const trial: Trial = {
      component,
      version,
      attemptId,
      sha256,
      from: isAgent
        ? script === EMBEDDED
          ? null
          : script
        : ((await currentRelease(programs, 'watchdog')) ?? null),
      fromVersion: isAgent ? (this.#running?.version ?? '') : WATCHDOG_VERSION,
      starts: 0,
      before: [...before],
    };
    await writeTrial(dataDir, trial);
    this.#step(trial, 'trial_recorded');
    this.#restarts = FIRST_START;
  }

  /** The switch may have been interrupted, so it is repeated before each start. */
  async #countStart(trial: Trial): Promise<Trial> {
    const { programs, dataDir } = this.#parts;
    if ((await currentRelease(programs, trial.component)) !== trial.version && trial.component === 'agent') {
      await chooseRelease(programs, trial.component, trial.version);
      this.#step(trial, 'switched');
    }
    const counted = { ...trial, starts: trial.starts + 1 };
    await writeTrial(dataDir, counted);
    this.#step(counted, 'start_counted', String(counted.starts));
    return counted;
  }

  async #uncount(trial: Trial): Promise<void> {
    const kept = await readTrial(this.#parts.dataDir);
    // Decided meanwhile.
    if (kept === undefined || kept.verdict !== undefined) return;
    await writeTrial(this.#parts.dataDir, { ...kept, starts: Math.max(0, trial.starts - 1) });
  }

  /** Starts the new watchdog beside this one, which has no agent meanwhile. Returns whether the new one takes over. */
  async #refereeTrial(trial: Trial, signal: AbortSignal): Promise<boolean> {
    const { programs, dataDir, settings, reporter, log } = this.#parts;
    const counted = await this.#countStart(trial);
    const end = await superviseOnce({
      command: [
        programFile(programs, 'watchdog', trial.version),
        'watchdog',
        'run',
        '--trial',
        '--data-dir',
        dataDir,
        '--programs',
        programs,
      ],
      settings,
      programs,
      signal,
      trial: {
        version: trial.version,
        // Its agent has not changed, and its messages come through the new watchdog.
        expected: expectedOf(trial).filter((ability) => ability === 'socket'),
        isServed: () => reporter.isServed(),
        stopsWhenHealthy: true,
        healthy: async () => {},
      },
      mayInstall: async () => ({ code: 'TRIAL_RUNNING', message: 'The watchdog is on trial.' }),
      on: { started: () => {}, hello: () => {}, connection: () => {}, heartbeat: () => {} },
    });
    if (end.kind === 'healthy') {
      log(`The watchdog ${trial.version} is healthy and takes over.`);
      await decideHealthy(this.#parts, counted);
      await removeOthers(this.#parts, 'watchdog', WATCHDOG_VERSION);
      return true;
    }
    const { code, message } =
      end.kind === 'trial_failed'
        ? { code: end.code, message: withOutput(end.message, end.output ?? []) }
        : end.kind === 'ended'
          ? {
              code: end.end.isSilent ? 'HUNG' : 'CRASHED',
              message: withOutput(`The new watchdog ended. ${end.end.how}`, end.end.output),
            }
          : { code: 'INTERRUPTED', message: 'The machine stopped during the trial of the watchdog.' };
    log(`The watchdog ${trial.version} is not used: ${message}`, 'warn');
    await decideRollback(this.#parts, counted, { code, message });
    return false;
  }

  #step({ component, version, attemptId }: Trial, step: UpgradeStep, detail?: string): void {
    note(this.#parts.dataDir, {
      step,
      component,
      version,
      attemptId,
      ...(detail === undefined ? {} : { detail }),
    });
  }
}

/** Checks an installation request: the watchdog does not trust its agent. Returns a refusal, or `undefined`. */
async function refusalOf(
  place: { programs: string; dataDir: string },
  { component, version, isPinned }: InstallRequest,
): Promise<{ code: string; message: string } | undefined> {
  const { programs, dataDir } = place;
  try {
    const { floor } = await provenReleases(dataDir, component);
    await checkInstalled(programs, version, {
      component,
      platform: ownPlatform(),
      keys: pemById(await loadTrustedKeys(dataDir)),
      floor: isPinned ? undefined : floor,
    });
    if (isPinned) await changeProven(dataDir, component, (proven) => ({ ...proven, pinned: version }));
    return undefined;
  } catch (error) {
    if (error instanceof ReleaseRefused) return { code: error.code, message: error.message };
    throw error;
  }
}
