import { z } from 'zod';
import {
  type HeartbeatAck,
  RELEASE_KEYS_MAX,
  ReleaseKey,
  UPGRADE_CAPABILITY,
  type UpdatePhase,
  type UpdateStatus,
  type Upgrade,
  shortened,
} from '../../../protocol/index.ts';
import { type SendStatus, HubRefused } from '../../core/answer-channel.ts';
import { get, type ServerAccess } from '../../core/server-call.ts';
import type { WatchdogLink } from '../../core/watchdog-link.ts';
import { isSecureServer } from '../../os/network/network.ts';
import {
  extendTrust,
  checkRelease,
  type Expected,
  loadTrustedKeys,
  pemById,
} from '../../os/releases/release-check.ts';
import type { DurableHandlers } from '../../work/handler.ts';
import { downloadFile, UpdateFault, type WantedFile, faultOf } from './download.ts';
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { AGENT_VERSION } from '../../core/version.ts';
import { checkInstalled, provenReleases } from '../../os/releases/installed-release.ts';
import { ownPlatform } from '../../os/releases/layout.ts';
import {
  readAttempt,
  removeAttempt,
  writeAttempt,
  type Attempt,
  upgradesIn,
  failuresOf,
  nextTryAt,
  recordFailure,
  dropStatuses,
  putStatus,
  waitingStatuses,
  note,
  type UpgradeStep,
} from '../../os/releases/upgrade-files.ts';
import {
  type Offer,
  readOffer,
  type OfferState,
  takeApplyRequest,
  writeOfferState,
  assertSpace,
  checkDownload,
  stage,
} from './offer.ts';

const KeysAnswer = z.object({ keys: z.array(ReleaseKey).max(RELEASE_KEYS_MAX) });

interface Updates {
  readonly capabilities: readonly string[];
  /** Additional fields for the heartbeat. */
  facts(): { watchdogVersion: string };
  connected(send: SendStatus): void;
  acknowledged(answer: HeartbeatAck): void;
  stop(): Promise<void>;
}

/** The upgrades of an agent that is run by a watchdog, as its session needs them. */
export function openUpdates(parts: {
  dataDir: string;
  access: ServerAccess;
  link: WatchdogLink;
  work: RunningWork;
  settings: { readonly autoUpdate: boolean; readonly insecureHttp: boolean };
  warn: (message: string) => void;
}): Updates {
  const { dataDir, access, link, work, settings, warn } = parts;
  const statuses = new StatusSender(dataDir, warn);
  const updater = new Updater({
    dataDir,
    link,
    work,
    statuses,
    isAutomatic: () => settings.autoUpdate,
    // Allowed only if the administrator has allowed the same for the server itself.
    allowsHttp: !isSecureServer(access.server) && settings.insecureHttp,
    download: (wanted) => downloadFile(access.network, wanted),
    refreshKeys: () => refreshKeys(dataDir, access),
    warn,
  });
  return {
    capabilities: [UPGRADE_CAPABILITY],
    facts: () => ({ watchdogVersion: link.watchdogVersion }),
    connected: (send) => statuses.attach(send),
    acknowledged({ upgrade, config }) {
      link.heartbeat();
      if (config?.releaseKeys !== undefined) {
        extendTrust(dataDir, config.releaseKeys).catch((error: unknown) => warn(String(error)));
      }
      // The watchdog may have added the end of a trial.
      void statuses.flush();
      updater.offered(upgrade);
    },
    stop: () => updater.stop(),
  };
}

async function refreshKeys(dataDir: string, access: ServerAccess): Promise<void> {
  const { status, body } = await get(access, '/agent-versions/keys').catch((error: unknown) => {
    throw new UpdateFault('KEYS_NOT_READ', String(error), true);
  });
  const answer = KeysAnswer.safeParse(body);
  if (!answer.success) {
    throw new UpdateFault(
      'KEYS_NOT_READ',
      `The request for the release keys was answered with ${status}.`,
      true,
    );
  }
  await extendTrust(dataDir, answer.data.keys);
}

export function updateHandlers(parts: {
  settings: { setAutoUpdate(enabled: boolean): Promise<void> };
  /** Sends a heartbeat at once. */
  reportNow: () => void;
}): DurableHandlers {
  return {
    async 'agent.set-auto-update'({ enabled }) {
      await parts.settings.setAutoUpdate(enabled);
      parts.reportNow();
      return {};
    },
  };
}

/** The commands that the agent carries out, which an upgrade must not interrupt. */
export interface RunningWork {
  readonly isIdle: boolean;
  idle(): Promise<void>;
  pause(): void;
  resume(): void;
}

interface UpdaterParts {
  dataDir: string;
  link: WatchdogLink;
  work: RunningWork;
  statuses: StatusSender;
  /** The administrator's consent to upgrades that the server offers. */
  isAutomatic: () => boolean;
  /** Whether releases may be downloaded without encryption. */
  allowsHttp: boolean;
  /** Downloads a file and returns its path. The content is not checked yet. */
  download: (wanted: WantedFile) => Promise<string>;
  /** Asks the server for its release keys, and trusts those that a trusted key vouches for. */
  refreshKeys: () => Promise<void>;
  warn: (message: string) => void;
  /** For tests. */
  waits?: { politeMs: number; refusingMs: number };
}

/** How long the agent waits for an idle moment; then it accepts no new commands until the running ones have ended. */
const WAITS = { politeMs: 10 * 60_000, refusingMs: 10 * 60_000 };
const FLUSH_MS = 3000;
/** After its consent, the watchdog stops this agent within this time. */
const STOPPED_WITHIN_MS = 60_000;
/** The attempt of an earlier process ends when the server no longer offers its release. */
const WITHDRAWN_AFTER = 3;

/** Downloads, checks and stages the releases that the server offers, one at a time, and hands them to the watchdog. */
export class Updater {
  readonly #parts: UpdaterParts;
  readonly #stop = new AbortController();
  #current: Promise<void> | undefined;
  #withoutOffer = 0;

  constructor(parts: UpdaterParts) {
    this.#parts = parts;
  }

  /** Called with each acknowledgement of a heartbeat. */
  offered(upgrades: readonly Upgrade[]): void {
    // A release on trial installs nothing, because it may be about to be removed.
    if (this.#current !== undefined || this.#parts.link.beatEveryMs !== undefined) return;
    this.#current = this.#consider(upgrades)
      .catch((error: unknown) => this.#parts.warn(`An upgrade could not be tried: ${String(error)}`))
      .finally(() => {
        this.#current = undefined;
      });
  }

  /** Resolves when the last offer was evaluated, and installed if it was due. */
  async settle(): Promise<void> {
    await this.#current;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#current;
  }

  async #consider(upgrades: readonly Upgrade[]): Promise<void> {
    const { dataDir, isAutomatic } = this.#parts;
    const wanted = upgrades.find((upgrade) => upgrade.version !== this.#versionOf(upgrade.component));
    await this.#endWithdrawn(wanted);
    if (wanted === undefined) return writeOfferState(dataDir, undefined);
    const failure = (await failuresOf(dataDir)).find(({ sha256 }) => sha256 === wanted.sha256);
    const waitsUntil = failure === undefined ? 0 : nextTryAt(failure, clock.now());
    const isAskedHere = await takeApplyRequest(dataDir);
    const state: OfferState = {
      component: wanted.component,
      version: wanted.version,
      ...(failure === undefined
        ? {}
        : { failure: failure.message, nextTryAt: new Date(waitsUntil).toISOString() }),
    };
    await writeOfferState(dataDir, state);
    // A manual request overrides the wait after a failure; only one at the machine overrides the machine's setting.
    if (!isAutomatic() && !isAskedHere) return;
    if (clock.now() < waitsUntil && !isAskedHere && wanted.requested !== true) return;
    await this.#attempt(wanted);
  }

  async #attempt(upgrade: Upgrade): Promise<void> {
    const { dataDir, work, statuses, warn } = this.#parts;
    const attempt = await this.#begin(upgrade);
    const report = async (
      phase: UpdatePhase,
      more: Pick<UpdateStatus, 'code' | 'error' | 'retryInSeconds'> = {},
    ) =>
      statuses.put({
        component: upgrade.component.slice(0, 50),
        targetVersion: upgrade.version.slice(0, 50),
        phase,
        fromVersion: this.#versionOf(upgrade.component) ?? '',
        attemptId: attempt.attemptId,
        ...more,
      });
    try {
      const offer = readOffer(upgrade);
      await this.#assertTrusted(offer);
      await this.#bringHere(offer, attempt, report);
      await this.#waitForWork();
      await report('restarting');
      await settledWithin(statuses.flush(), FLUSH_MS, this.#stop.signal);
      this.#stop.signal.throwIfAborted();
      await this.#handOver(offer, attempt);
    } catch (error) {
      work.resume();
      // The next process continues where this one was stopped.
      if (this.#stop.signal.aborted) return;
      const { code, message, isTemporary } = faultOf(error);
      warn(`The upgrade of the ${attempt.component} to ${attempt.version} was not made: ${message}`);
      const { sha256, component, version } = attempt;
      const wait = await recordFailure(dataDir, { sha256, component, version, code, message, isTemporary });
      await report('failed', { code, error: shortened(message, 2000), ...wait });
      await removeAttempt(dataDir);
    }
  }

  async #begin({ component, version, sha256 }: Upgrade): Promise<Attempt> {
    const { dataDir } = this.#parts;
    const known = await readAttempt(dataDir);
    if (known?.sha256 === sha256 && known.component === component) return known;
    const attempt = { attemptId: randomUUID(), component, version, sha256 };
    await writeAttempt(dataDir, attempt);
    return attempt;
  }

  /** All checks that need no download. */
  async #assertTrusted(offer: Offer): Promise<void> {
    const { dataDir, refreshKeys } = this.#parts;
    const isKnown = async () => pemById(await loadTrustedKeys(dataDir)).has(offer.release.keyId);
    if (!(await isKnown())) await refreshKeys();
    checkRelease(offer.release, await this.#expected(offer));
  }

  async #expected({ component, isPinned }: Offer): Promise<Expected> {
    const { dataDir } = this.#parts;
    const { floor } = await provenReleases(dataDir, component);
    return {
      component,
      platform: ownPlatform(),
      keys: pemById(await loadTrustedKeys(dataDir)),
      floor: isPinned ? undefined : floor,
    };
  }

  async #bringHere(
    offer: Offer,
    attempt: Attempt,
    report: (phase: UpdatePhase) => Promise<void>,
  ): Promise<void> {
    const { dataDir, link, allowsHttp, download } = this.#parts;
    if (await this.#isInstalled(offer)) return report('installing');
    const { size, sha256 } = offer.release.manifest;
    const folder = path.join(upgradesIn(dataDir), 'downloads');
    await report('downloading');
    this.#step(attempt, 'download_started');
    await assertSpace([folder, link.programs], size);
    const file = await download({
      url: offer.url,
      size,
      sha256,
      folder,
      allowsHttp,
      signal: this.#stop.signal,
    });
    await report('verifying');
    await checkDownload(file, offer.release);
    this.#step(attempt, 'download_checked');
    await report('installing');
    await stage(link.programs, offer, file);
    this.#step(attempt, 'staged');
  }

  /** A version that is still installed is not downloaded again. */
  async #isInstalled(offer: Offer): Promise<boolean> {
    const { version, sha256 } = offer.release.manifest;
    try {
      const found = await checkInstalled(this.#parts.link.programs, version, await this.#expected(offer));
      return found.manifest.sha256 === sha256;
    } catch {
      return false;
    }
  }

  /** Returns when nothing runs; from then on no command is accepted. */
  async #waitForWork(): Promise<void> {
    const { work, waits = WAITS } = this.#parts;
    const idleWithin = async (ms: number) => {
      await settledWithin(work.idle(), ms, this.#stop.signal);
      this.#stop.signal.throwIfAborted();
      return work.isIdle;
    };
    const isIdle = await idleWithin(waits.politeMs);
    work.pause();
    if (isIdle && work.isIdle) return;
    if (await idleWithin(waits.refusingMs)) return;
    throw new UpdateFault(
      'WORK_IN_PROGRESS',
      'A command ran for so long that the upgrade was put off.',
      true,
    );
  }

  async #handOver({ component, release, isPinned }: Offer, attempt: Attempt): Promise<void> {
    const { link } = this.#parts;
    const { version, sha256 } = release.manifest;
    this.#step(attempt, 'install_requested');
    const { code, message } = await link.install({
      component,
      version,
      sha256,
      attemptId: attempt.attemptId,
      isPinned,
    });
    if (code !== undefined) {
      throw new UpdateFault(code, message ?? 'The watchdog refused.', TEMPORARY.includes(code));
    }
    await clock.sleep(STOPPED_WITHIN_MS, { signal: this.#stop.signal }).catch(() => {});
    this.#stop.signal.throwIfAborted();
    throw new UpdateFault('NO_ANSWER', 'The watchdog agreed and did nothing.', true);
  }

  async #endWithdrawn(wanted: Upgrade | undefined): Promise<void> {
    const { dataDir, statuses } = this.#parts;
    const attempt = await readAttempt(dataDir);
    if (attempt === undefined || wanted?.sha256 === attempt.sha256) {
      this.#withoutOffer = 0;
      return;
    }
    this.#withoutOffer += 1;
    if (wanted === undefined && this.#withoutOffer < WITHDRAWN_AFTER) return;
    await statuses.put({
      component: attempt.component.slice(0, 50),
      targetVersion: attempt.version.slice(0, 50),
      phase: 'failed',
      code: 'WITHDRAWN',
      error: 'The server has stopped offering the release.',
      attemptId: attempt.attemptId,
    });
    await removeAttempt(dataDir);
  }

  #versionOf(component: string): string | undefined {
    if (component === 'agent') return AGENT_VERSION;
    return component === 'watchdog' ? this.#parts.link.watchdogVersion : undefined;
  }

  #step({ component, version, attemptId }: Attempt, step: UpgradeStep): void {
    const isWatchdog = component === 'watchdog';
    note(this.#parts.dataDir, { step, component: isWatchdog ? 'watchdog' : 'agent', version, attemptId });
  }
}

const TEMPORARY = ['TRIAL_RUNNING', 'NO_ANSWER', 'FAILED'];

/** Resolves when the promise has resolved, after `ms`, and when `signal` is aborted. */
async function settledWithin(promise: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  const timer = new AbortController();
  const ends = AbortSignal.any([timer.signal, signal]);
  await Promise.race([promise, clock.sleep(ms, { signal: ends }).catch(() => {})]);
  timer.abort();
}

type Send = (status: UpdateStatus) => Promise<void>;

/** Sends the phases of upgrades in their order, over any connection. Unsent ones outlive the agent. */
export class StatusSender {
  readonly #dataDir: string;
  readonly #warn: (message: string) => void;
  #send: Send | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(dataDir: string, warn: (message: string) => void) {
    this.#dataDir = dataDir;
    this.#warn = warn;
  }

  /** Called with a new connection. */
  attach(send: Send): void {
    this.#send = send;
    void this.flush();
  }

  /** Stores the status on disk and sends it when possible. */
  async put(status: UpdateStatus & { attemptId: string }): Promise<void> {
    await putStatus(this.#dataDir, status);
    void this.flush();
  }

  /** Resolves when everything was sent, or sending has failed. */
  flush(): Promise<void> {
    this.#turn = this.#turn
      .then(() => this.#sendAll())
      .catch((error: unknown) => this.#warn(`The state of an upgrade could not be sent: ${String(error)}`));
    return this.#turn;
  }

  async #sendAll(): Promise<void> {
    const send = this.#send;
    for (const { name, status } of send === undefined ? [] : await waitingStatuses(this.#dataDir)) {
      if (this.#send !== send) return;
      await send?.(status).catch((error: unknown) => {
        if (!(error instanceof HubRefused)) throw error;
        // Drop it: it would block all later ones.
        this.#warn(`The hub did not accept the state of an upgrade: ${String(error)}`);
      });
      await dropStatuses(this.#dataDir, [name]);
    }
  }
}
