import { mkdir, open, readdir, readFile, rm, rmdir, truncate } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { mountedFolder, mountRepository, type Repository } from '../../../engine/index.ts';
import { sizeOnMount, unmountAll } from '../../os/files/mounts.ts';
import { endLeftover, findByCommand } from '../../os/process-group.ts';
import type { LocalEngine } from '../../repository/local-engine.ts';
import { cancelled, machineError } from './machine-error.ts';

/** One lock a key: work with the same key runs one after another, work with different keys concurrently. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(key) ?? Promise.resolve()).catch(() => {}).then(work);
    const settled = turn
      .catch(() => {})
      .finally(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key);
      });
    this.#last.set(key, settled);
    return turn;
  }
}

/**
 * Snapshots that running machines read: each is mounted once, however many machines use it. restic outlives the agent,
 * as the machines do. A dead mount is removed before a new one is made, because otherwise it would only be hidden.
 */

/** Opens the repository of a snapshot. It stays open, because restic uses the connection as long as it runs. */
export interface MountAccess {
  repository: Repository;
  proxy: string | undefined;
  close: () => void;
}

const POLL_MS = 50;
/** restic reads the whole index of the repository first. */
const MOUNT_MS = 15 * 60_000;
const END = { signal: 'SIGINT', ms: 5000 } as const;
/** How much of restic's output goes into the log of this machine. */
const LOG_MAX = 1_000_000;
const LOG_SHOWN = 2000;

export class SnapshotMounts {
  readonly #folder: string;
  readonly #engine: LocalEngine;
  readonly #warn: (message: string) => void;
  readonly #mutex = new KeyedMutex();
  /** Parameters of the mounts of this process, so that a dead one can be made again. */
  readonly #access = new Map<string, MountAccess>();

  constructor(parts: { folder: string; engine: LocalEngine; warn: (message: string) => void }) {
    this.#folder = parts.folder;
    this.#engine = parts.engine;
    this.#warn = parts.warn;
  }

  /** The path of a file in the snapshot, mounted or not. */
  fileOf(snapshotId: string, imagePath: string): string {
    return path.join(this.#rootOf(snapshotId), ...imagePath.split('/'));
  }

  async isHealthy(snapshotId: string): Promise<boolean> {
    const running = await this.#processes(snapshotId);
    return running.length > 0 && (await this.#isThere(snapshotId));
  }

  async #isThere(snapshotId: string): Promise<boolean> {
    return (await sizeOnMount(this.#rootOf(snapshotId))) !== undefined;
  }

  /** Mounts a snapshot unless it is mounted. Returns whether it had to. */
  mount(snapshotId: string, access: () => Promise<MountAccess>, signal: AbortSignal): Promise<boolean> {
    return this.#mutex.run(snapshotId, async () => {
      if (await this.isHealthy(snapshotId)) return false;
      await this.#remove(snapshotId);
      const opened = await access();
      this.#access.set(snapshotId, opened);
      try {
        await this.#begin(snapshotId, opened, signal);
      } catch (error) {
        await this.#release(snapshotId);
        throw error;
      }
      return true;
    });
  }

  /** Restores a dead mount of this process. Returns whether it is healthy now. */
  repair(snapshotId: string, signal: AbortSignal): Promise<boolean> {
    return this.#mutex.run(snapshotId, async () => {
      if (await this.isHealthy(snapshotId)) return true;
      const access = this.#access.get(snapshotId);
      if (access === undefined) return false;
      await this.#remove(snapshotId);
      await this.#begin(snapshotId, access, signal);
      return true;
    });
  }

  /** Ends the mount of a snapshot that no machine uses any more. */
  release(snapshotId: string): Promise<void> {
    return this.#mutex.run(snapshotId, () => this.#release(snapshotId));
  }

  /** Ends all mounts except these. An earlier agent may have left them. */
  async keepOnly(snapshotIds: ReadonlySet<string>): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    const known = new Set(names.flatMap((name) => /^[0-9a-f]{64}/.exec(name)?.[0] ?? []));
    for (const id of known) if (!snapshotIds.has(id)) await this.release(id);
  }

  /** Keeps what restic prints from filling the disk. */
  async shortenLogs(): Promise<void> {
    for (const id of this.#access.keys()) {
      const file = this.#logOf(id);
      const text = await readFile(file).catch(() => Buffer.alloc(0));
      if (text.length > LOG_MAX) await truncate(file, 0).catch(() => {});
    }
  }

  async #begin(snapshotId: string, { repository, proxy }: MountAccess, signal: AbortSignal): Promise<void> {
    const place = this.#placeOf(snapshotId);
    await mkdir(place, { recursive: true, mode: 0o700 });
    const engine = await this.#engine.open();
    const log = await open(this.#logOf(snapshotId), 'w', 0o600);
    const state = { hasEnded: false };
    try {
      const ended = mountRepository(engine, repository, { folder: place, errors: log.fd }, { proxy });
      void ended.then(() => (state.hasEnded = true));
    } finally {
      await log.close();
    }
    const until = clock.monotonic() + MOUNT_MS;
    while (!state.hasEnded && clock.monotonic() < until) {
      if (signal.aborted) throw cancelled();
      if (await this.#isThere(snapshotId)) return;
      await clock.sleep(POLL_MS);
    }
    const printed = await readFile(this.#logOf(snapshotId), 'utf8').catch(() => '');
    this.#warn(`A snapshot could not be mounted: ${printed.slice(-LOG_SHOWN)}`);
    throw machineError('SNAPSHOT_UNREADABLE', whyNotMounted(printed));
  }

  async #release(snapshotId: string): Promise<void> {
    this.#access.get(snapshotId)?.close();
    this.#access.delete(snapshotId);
    await this.#remove(snapshotId);
    await rm(this.#logOf(snapshotId), { force: true });
  }

  /** Ends restic and unmounts everything at the place, dead or alive. */
  async #remove(snapshotId: string): Promise<void> {
    const place = this.#placeOf(snapshotId);
    // The mount first: restic does not end while a file on it is open.
    await unmountAll(place);
    for (const left of await this.#processes(snapshotId)) {
      if (!(await endLeftover(left, END))) {
        this.#warn(`restic (process ${left.pid}), which has served a snapshot, could not be ended.`);
      }
    }
    if (!(await unmountAll(place))) {
      throw machineError('SNAPSHOT_UNREADABLE', `The folder ${place} cannot be unmounted.`);
    }
    // Not recursively: the content would be that of a mount.
    await rmdir(place).catch(() => {});
  }

  /** Includes processes of other agents: the mount point on the command line identifies them. */
  #processes(snapshotId: string) {
    const place = this.#placeOf(snapshotId);
    return findByCommand((words) => words.includes('mount') && words.at(-1) === place);
  }

  #placeOf(snapshotId: string): string {
    return path.join(this.#folder, path.basename(snapshotId));
  }

  #rootOf = (snapshotId: string) => mountedFolder(this.#placeOf(snapshotId), snapshotId);
  #logOf = (snapshotId: string) => `${this.#placeOf(snapshotId)}.log`;
}

/** @param printed  restic's output, which is for the operator and does not leave the device */
export const whyNotMounted = (printed: string): string =>
  /fusermount3?\b.{0,200}not found/.test(printed)
    ? 'fusermount is not installed on this device. Install the package fuse there.'
    : 'The snapshot cannot be read from its repository.';
