import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import {
  type DiskPlace,
  type Engine,
  EngineError,
  EngineProbe,
  openEngine,
  type Repository,
} from '../../../../engine/index.ts';
import type { RecoveryAccess, RecoveryMachine, RecoveryResult } from '../../../../protocol/index.ts';
import { AgentError, describeError } from '../../../core/agent-error.ts';
import { AGENT_VERSION } from '../../../core/version.ts';
import { readPrivateJson, writePrivateJson } from '../../../os/files/private-file.ts';
import type { Network } from '../../../os/network/network.ts';
import { openRoute } from '../../../repository/engine-route.ts';
import { restSource } from '../../../repository/rest-source.ts';
import { bootMode } from '../describe-machine.ts';
import { openImage, type OpenedImage } from '../restore/open-image.ts';
import { type RestoredDisk, restoreDisk } from '../restore/restore-disk.ts';
import { ProgressReports } from './progress-reports.ts';
import { RecoveryServer } from './recovery-server.ts';

/** Restores the disks of an image onto a machine that has no agent: from a rescue system, with a token. */

export interface RecoverOptions {
  server: string;
  token: string;
  /** A disk, a file that stands for one, or a folder that gets a file for each disk. */
  target: string;
  disk?: string | undefined;
  grow: boolean;
  mayOverwrite: boolean;
  /** Also onto a machine that starts in another way than the image. */
  force: boolean;
  /** A private folder that outlives an interruption. */
  state: string;
  network: Network;
  signal: AbortSignal;
  say: (line: string) => void;
  onProgress?: (progress: { phase: string; disk: string; done: number; total: number }) => void;
  /** For tests: in place of what this machine is. */
  machine?: Partial<RecoveryMachine>;
  extentBytes?: number;
}

const State = z.object({ token: z.string(), session: z.string() });

export async function recover(options: RecoverOptions): Promise<RecoveryResult> {
  const { server, network, token, state, signal, say } = options;
  const machine: RecoveryMachine = {
    hostname: os.hostname().slice(0, 255),
    agentVersion: AGENT_VERSION,
    bootMode: await bootMode(),
    ...options.machine,
  };
  const session = await savedSession(state, token);
  const recovery = new RecoveryServer({ server, network }, { token, session, signal });
  const access = await recovery.start(machine);
  await saveSession(state, token, recovery.session);
  say(`${session === undefined ? 'Recovering' : 'Going on with'} ${access.machineName || 'the machine'}.`);
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
      error: { code: failure.code, message: failure.message.slice(0, 2000) },
    };
    await recovery
      .end(result)
      .catch((cause: unknown) => say(`The server does not know of this: ${String(cause)}`));
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
    const warnings = warningsOf(image);
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

/** With restic where it is on this machine, which reads faster from the beginning; otherwise, and from any other byte, without. */
async function openRecovered(work: Work): Promise<{ image: OpenedImage; close: () => void }> {
  const { access, server, network, state, signal } = work;
  const { path: where, user, secret, password, keyHint } = access.repository;
  const url = new URL(server);
  // Only the path is taken from the answer: it cannot lead to another server.
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

function warningsOf({ description }: OpenedImage): string[] {
  const { consistency, disks } = description;
  return [
    ...(consistency === 'none'
      ? [
          'The image was made while the machine was running. Its file systems may need a repair at the first start.',
        ]
      : []),
    ...disks.flatMap(({ name, sectorBytes }) =>
      sectorBytes === 512
        ? []
        : [`The disk ${name} had sectors of ${sectorBytes} bytes. Its target needs the same.`],
    ),
  ];
}

function resultOf(restored: readonly RestoredDisk[], warnings: string[]): RecoveryResult {
  const isValid = restored.every(({ checks }) => checks.every(({ ok }) => ok));
  return {
    status: isValid ? 'completed' : 'partial',
    bytesRestored: restored.reduce((sum, { bytes }) => sum + bytes, 0),
    validated: isValid,
    disks: restored.map(({ disk, target, sha256, continuedFrom, checks }) => ({
      disk,
      target: target.slice(0, 500),
      sha256,
      continuedFrom,
      checks: checks.slice(0, 300),
    })),
    warnings,
    error: null,
  };
}

const stateFile = (folder: string) => path.join(folder, 'recovery.json');
const named = (token: string) => createHash('sha256').update(token).digest('hex');

/** The token itself is kept nowhere. */
async function savedSession(folder: string, token: string): Promise<string | undefined> {
  const state = State.safeParse(await readPrivateJson(stateFile(folder)).catch(() => undefined));
  return state.success && state.data.token === named(token) ? state.data.session : undefined;
}

async function saveSession(folder: string, token: string, session: string | undefined): Promise<void> {
  if (session !== undefined) await writePrivateJson(stateFile(folder), { token: named(token), session });
}
