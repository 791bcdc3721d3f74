import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import {
  type DiskPlace,
  type Engine,
  EngineError,
  EngineProbe,
  openEngine,
  type Repository,
} from '../../../engine/index.ts';
import {
  DISK_CHECKS_MAX,
  RecoveryAccess,
  type RecoveryMachine,
  type RecoveryResult,
  type RecoveryProgress,
  shortened,
} from '../../../protocol/index.ts';
import { AgentError, describeError } from '../../core/agent-error.ts';
import { EXIT, post, type ServerAccess, type ServerAnswer, ServerCallError } from '../../core/server-call.ts';
import { AGENT_VERSION } from '../../core/version.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import type { Network } from '../../os/network/network.ts';
import { openRoute, restSource } from '../../repository/rest-source.ts';
import type { DiskCheck } from './disk-target.ts';
import { bootMode } from './find-disks.ts';
import { openImage, type OpenedImage, type RestoredDisk, restoreDisk } from './restore-disk.ts';

/** Restores the disks of an image onto a machine without an agent: from a rescue system, with a token. */

export interface RecoverOptions {
  server: string;
  token: string;
  /** A disk, a file that stands for one, or a folder for one file per disk. */
  target: string;
  disk?: string | undefined;
  grow: boolean;
  mayOverwrite: boolean;
  /** Restores also if the image starts by another firmware (BIOS, UEFI) than this machine. */
  force: boolean;
  /** A private folder that survives an interruption. */
  state: string;
  network: Network;
  signal: AbortSignal;
  say: (line: string) => void;
  onProgress?: (progress: { phase: string; disk: string; done: number; total: number }) => void;
  /** For tests: replaces the firmware of this machine. */
  machine?: Partial<RecoveryMachine>;
  extentBytes?: number;
}

const State = z.object({ token: z.string(), session: z.string() });

export async function recover(options: RecoverOptions): Promise<RecoveryResult> {
  const { server, network, token, state, signal, say } = options;
  const machine: RecoveryMachine = {
    hostname: shortened(os.hostname(), 255),
    agentVersion: AGENT_VERSION,
    bootMode: await bootMode(),
    ...options.machine,
  };
  const session = await savedSession(state, token);
  const recovery = new RecoveryServer({ server, network }, { token, session, signal });
  const access = await recovery.start(machine);
  await saveSession(state, token, recovery.session);
  say(`${session === undefined ? 'Recovering' : 'Resuming'} ${access.machineName || 'the machine'}.`);
  try {
    const result = await restoreAll({ ...options, access, machine, recovery });
    await recovery.end(result);
    return result;
  } catch (error) {
    const failure = error instanceof EngineError ? error : describeError(error);
    const result: RecoveryResult = {
      status: 'failed',
      bytesRestored: 0,
      validated: false,
      disks: [],
      warnings: [],
      error: { code: failure.code, message: shortened(failure.message, 2000) },
    };
    await recovery
      .end(result)
      .catch((cause: unknown) => say(`The server could not be informed: ${String(cause)}`));
    throw error;
  }
}

interface Work extends RecoverOptions {
  access: RecoveryAccess;
  machine: RecoveryMachine;
  recovery: RecoveryServer;
}

async function restoreAll(work: Work): Promise<RecoveryResult> {
  const { access, target, signal, say } = work;
  const { image, close } = await openRecovered(work);
  try {
    const isFolder = (await stat(target).catch(() => undefined))?.isDirectory() === true;
    const disks = chosenDisks(image, work);
    if (!isFolder) assertFitsMachine(image, work, disks);
    const warnings = warningsOf(image, disks);
    for (const warning of warnings) say(`Note: ${warning}`);
    const total = disks.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const reports = new ProgressReports(work.recovery, total);
    const restored: RestoredDisk[] = [];
    for (const { name, sizeBytes } of disks) {
      restored.push(
        await restoreDisk({
          image,
          snapshotId: access.snapshotId,
          disk: name,
          target: isFolder ? path.join(path.resolve(target), `${name}.raw`) : path.resolve(target),
          mayOverwrite: work.mayOverwrite,
          keepsSize: !isFolder,
          grow: work.grow || access.targetConfig.grow === true,
          journalFile: path.join(work.state, `${access.recoveryId}-${name}.journal`),
          forbidden: work.state,
          extentBytes: work.extentBytes,
          signal,
          onProgress(phase, done) {
            reports.put({ phase, disk: name, done });
            work.onProgress?.({ phase, disk: name, done, total: sizeBytes });
          },
        }),
      );
      reports.next(sizeBytes);
    }
    await reports.end();
    return resultOf(restored, warnings);
  } finally {
    close();
  }
}

/**
 * restic reads faster from the beginning, so it is used then if it is installed; from any other byte, our own reader
 * is used.
 */
async function openRecovered(work: Work): Promise<{ image: OpenedImage; close: () => void }> {
  const { access, server, network, state, signal } = work;
  const { path: where, user, secret, password, keyHint } = access.repository;
  const url = new URL(server);
  // Only the path is taken from the response, so it cannot lead to another server.
  url.pathname = where;
  const route = await openRoute(network, { type: 'rest', url: url.href, user, password: secret }, state);
  const repository: Repository = {
    destination: route.destination,
    password,
    isReadOnly: true,
    ...(keyHint === undefined ? {} : { keyHint }),
  };
  try {
    const engine = await findEngine(state);
    const image = await openImage({
      repository,
      source: restSource({ network, url, user, password: secret, signal }),
      snapshotId: access.snapshotId,
      signal,
      ...(engine === undefined ? {} : { restic: { engine, options: { proxy: route.proxy } } }),
    });
    return { image, close: route.close };
  } catch (error) {
    route.close();
    throw error;
  }
}

async function findEngine(folder: string): Promise<Engine | undefined> {
  try {
    const { PATH } = process.env;
    const program = await new EngineProbe().find({ searchPath: PATH });
    return await openEngine(program, { folder: path.join(folder, 'engine'), host: { PATH } });
  } catch (error) {
    if (error instanceof EngineError) return undefined;
    throw error;
  }
}

function chosenDisks({ disks }: OpenedImage, { disk, access }: Work): DiskPlace[] {
  const wanted = disk === undefined ? access.targetConfig.disks : [disk];
  const missing = wanted?.find((name) => !disks.some((each) => each.name === name));
  if (missing !== undefined) {
    const names = disks.map(({ name }) => name).join(', ');
    throw new AgentError('DISK_MISSING', `The image has no disk ${missing}. It has: ${names}.`);
  }
  return disks.filter(({ name }) => wanted?.includes(name) ?? true);
}

function assertFitsMachine({ description }: OpenedImage, work: Work, disks: readonly DiskPlace[]): void {
  if (disks.length > 1) {
    const names = disks.map(({ name }) => name).join(', ');
    throw new AgentError(
      'DISK_MISSING',
      `The image has ${disks.length} disks (${names}). Name one with --disk.`,
    );
  }
  const { bootMode: recorded } = description;
  const { bootMode: here } = work.machine;
  if (recorded === null || recorded === here || work.force) return;
  throw new AgentError(
    'BOOT_MODE_DIFFERS',
    `The image starts by ${FIRMWARE[recorded]}, and this machine was started by ${FIRMWARE[here]}. It would not start. Change that in the firmware of this machine, or repeat this with --force.`,
  );
}

const FIRMWARE = { bios: 'BIOS', uefi: 'UEFI' } as const;

function warningsOf({ description }: OpenedImage, chosen: readonly DiskPlace[]): string[] {
  const disks = description.disks.filter(({ name }) => chosen.some((each) => each.name === name));
  // One warning per sector size: there are few sizes, however many disks there are.
  const sizes = new Set(disks.map(({ sectorBytes }) => sectorBytes));
  sizes.delete(512);
  return [
    ...(description.consistency === 'none'
      ? [
          'The image was made while the machine was running. Its file systems may need a repair at the first start.',
        ]
      : []),
    ...[...sizes].map((size) => {
      const [first, ...others] = disks.filter(({ sectorBytes }) => sectorBytes === size);
      const more = others.length === 0 ? '' : ` The same applies to ${others.length} more disks.`;
      return `The disk ${first?.name} had sectors of ${size} bytes. Its target needs the same.${more}`;
    }),
  ];
}

/** As many checks of a disk as a result can hold: failed ones first, and the number of those left out. */
export const listedChecks = (
  checks: readonly DiskCheck[],
): Pick<RecoveryResult['disks'][number], 'checks' | 'checkCount'> =>
  checks.length <= DISK_CHECKS_MAX
    ? { checks: [...checks] }
    : {
        checks: checks.toSorted((a, b) => Number(a.ok) - Number(b.ok)).slice(0, DISK_CHECKS_MAX),
        checkCount: checks.length,
      };

function resultOf(restored: readonly RestoredDisk[], warnings: string[]): RecoveryResult {
  const isValid = restored.every(({ checks }) => checks.every(({ ok }) => ok));
  return {
    status: isValid ? 'completed' : 'partial',
    bytesRestored: restored.reduce((sum, { bytes }) => sum + bytes, 0),
    validated: isValid,
    disks: restored.map(({ disk, target, sha256, continuedFrom, checks }) => ({
      disk,
      target: shortened(target, 500),
      sha256,
      continuedFrom,
      ...listedChecks(checks),
    })),
    warnings,
    error: null,
  };
}

const stateFile = (folder: string) => path.join(folder, 'recovery.json');
const named = (token: string) => createHash('sha256').update(token).digest('hex');

/** The token itself is never stored. */
async function savedSession(folder: string, token: string): Promise<string | undefined> {
  const state = State.safeParse(await readPrivateJson(stateFile(folder)).catch(() => undefined));
  return state.success && state.data.token === named(token) ? state.data.session : undefined;
}

async function saveSession(folder: string, token: string, session: string | undefined): Promise<void> {
  if (session !== undefined) await writePrivateJson(stateFile(folder), { token: named(token), session });
}

const EVERY_MS = 3000;

/** Sends the progress of a recovery, one report at a time. */
class ProgressReports {
  readonly #server: Pick<RecoveryServer, 'report'>;
  readonly #total: number;
  readonly #startedAt = clock.monotonic();
  #before = 0;
  #written = 0;
  #firstDone: number | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | undefined;

  constructor(server: Pick<RecoveryServer, 'report'>, total: number) {
    this.#server = server;
    this.#total = total;
  }

  put({ phase, disk, done }: { phase: string; disk: string; done: number }): void {
    const now = clock.monotonic();
    const all = this.#before + done;
    if (phase === 'writing') {
      this.#firstDone ??= all;
      this.#written = all - this.#firstDone;
    }
    if (this.#sending !== undefined || now - this.#sentAt < EVERY_MS) return;
    this.#sentAt = now;
    const rate = Math.round((this.#written * 1000) / (now - this.#startedAt));
    const progress: RecoveryProgress = {
      phase,
      disk,
      done: all,
      total: this.#total,
      ...(phase === 'writing' && rate > 0 ? { rate, etaSeconds: Math.ceil((this.#total - all) / rate) } : {}),
    };
    this.#sending = this.#server.report(progress).finally(() => (this.#sending = undefined));
  }

  /** Called when a disk is complete. */
  next(sizeBytes: number): void {
    this.#before += sizeBytes;
  }

  async end(): Promise<void> {
    await this.#sending;
  }
}

/** The requests of a recovery to its server. They need only the token. */
class RecoveryServer {
  readonly #access: ServerAccess;
  readonly #token: string;
  readonly #signal: AbortSignal;
  #session: string | undefined;

  /** @param session  that of an earlier start with the same token */
  constructor(access: ServerAccess, { token, session, signal }: RecoverySecrets) {
    this.#access = access;
    this.#token = token;
    this.#session = session;
    this.#signal = signal;
  }

  /** The secret of this recovery, after it was started. */
  get session(): string | undefined {
    return this.#session;
  }

  /** Throws `ServerCallError` with the server's message. */
  async start(machine: RecoveryMachine): Promise<RecoveryAccess> {
    const answer = await post(this.#access, '/backup/bmr/authenticate', {
      body: {
        token: this.#token,
        ...(this.#session === undefined ? {} : { session: this.#session }),
        machine,
      },
      signal: this.#signal,
    });
    if (answer.status !== 200) throw refused(answer);
    const access = RecoveryAccess.safeParse(answer.body);
    if (!access.success) throw new ServerCallError(EXIT.refused, 'The response of the server is invalid.');
    this.#session = access.data.session ?? this.#session;
    return access.data;
  }

  /** A lost report does not matter: the next one contains more. */
  async report(progress: RecoveryProgress): Promise<void> {
    await post(this.#access, '/backup/bmr/progress', {
      body: this.#body({ progress }),
      signal: this.#signal,
    }).catch(() => undefined);
  }

  /** Also called for an interrupted recovery. Throws if the server does not accept it. */
  async end(result: RecoveryResult): Promise<void> {
    const answer = await post(this.#access, '/backup/bmr/complete', { body: this.#body({ result }) });
    if (answer.status !== 200) throw refused(answer);
  }

  #body(about: object) {
    return { token: this.#token, session: this.#session ?? '', ...about };
  }
}

const refused = ({ refusal = 'The server refuses.' }: Pick<ServerAnswer, 'refusal'>) =>
  new ServerCallError(EXIT.refused, refusal);

interface RecoverySecrets {
  token: string;
  session: string | undefined;
  signal: AbortSignal;
}
