import { lstat, rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { type PathReport, SelectedPaths, EngineError } from '../../../engine/index.ts';
import { type CommandOutput, type CommandPayload, canonicalPath } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { OpenFolder, nameBytes, oneText } from '../../os/files/open-folder.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { type BackupParts, STOP_MS, targetError } from '../../repository/local-engine.ts';
import { snapshotNames } from '../../repository/repository-source.ts';
import {
  type RepositoryWork,
  withRepository,
  namedPaths,
  progressOf,
} from '../../repository/repository-work.ts';
import {
  type Amount,
  assertRoom,
  checkTargetPath,
  findTarget,
  openTarget,
} from '../../repository/target-folder.ts';
import { AGENT_STOPS, type DurableContext, type Progress } from '../../work/handler.ts';
import {
  placeAll,
  type Placed,
  type PlaceOptions,
  RestorePlan,
  type RestoreSource,
  snapshotSource,
} from './restore-plan.ts';
import type { StagedRestore, StagingFolders, StagingPlace } from './staging.ts';
import { openVolume, volumeSource } from './volume-source.ts';

type Payload = CommandPayload<'backup.restore'>;
type Output = CommandOutput<'backup.restore'>;
type Result = Omit<Output, 'seconds'>;

export interface RestoreParts extends BackupParts {
  staging: StagingFolders;
}

interface Work extends RepositoryWork {
  parts: RestoreParts;
  payload: Payload;
  source: RestoreSource;
  target: string;
  progress: (progress: Progress) => void;
  /** True if the restore was cancelled; false if the agent stops or the time has expired. */
  isCancelled: () => boolean;
}

/** Folder of restores without a target. */
export const ownFolder = ({ folder }: Pick<RestoreParts, 'folder'>, restoreId: string): string =>
  path.join(folder, 'restored', restoreId);

/** Restores files of a snapshot. */
export const runRestore = (parts: RestoreParts) => ({
  stopMs: STOP_MS,
  run: (payload: Payload, context: DurableContext<'backup.restore'>): Promise<Output> =>
    run(parts, { payload, context }, async (use) => {
      const { snapshotId } = payload;
      return snapshotSource({
        ...use,
        snapshotId,
        readNames: snapshotNames(use, parts.network, snapshotId),
      });
    }),
});

/** Restores files out of a volume of an image. */
export const runVolumeRestore = (parts: RestoreParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.image-files-restore'>,
    context: DurableContext<'backup.image-files-restore'>,
  ): Promise<Output> =>
    run(parts, { payload, context }, async (use) =>
      volumeSource(await openVolume(use, parts.network, payload), use.options.signal),
    ),
});

interface Given {
  payload: Payload;
  context: Pick<DurableContext<'backup.restore'>, 'signal' | 'secret' | 'progress'>;
}

/**
 * Files are fetched into a private folder and then moved into place. So nothing at the target changes before
 * everything is fetched, and a user who can write to the target cannot redirect the restore.
 */
async function run(
  parts: RestoreParts,
  { payload, context }: Given,
  open: (use: RepositoryWork) => Promise<RestoreSource>,
): Promise<Output> {
  const target =
    payload.targetPath === undefined ? ownFolder(parts, payload.restoreId) : oneText(payload.targetPath);
  if (payload.targetPath !== undefined) checkTargetPath(target, parts.dataDir);
  const isCancelled = () => context.signal.aborted && context.signal.reason !== AGENT_STOPS;
  const startedAt = clock.monotonic();
  const { progress } = context;
  return withRepository(parts, { payload, context }, async (use) => {
    const source = await open(use);
    const work = { ...use, parts, payload, source, target, progress, isCancelled };
    const result = await (payload.dryRun ? planRestore(work) : restoreFiles(work));
    return { ...result, seconds: (clock.monotonic() - startedAt) / 1000 };
  });
}

async function planRestore(work: Work): Promise<Result> {
  const { selectedPaths, overwrite } = work.payload;
  const target = await findTarget(work.target);
  try {
    const above = work.source.isPathLimited
      ? await work.parts.staging.lengthFor(work.payload.restoreId, work.target)
      : undefined;
    const plan = new RestorePlan(target?.bytes, overwrite, above);
    const { missing, leftOut } = await work.source.select(selectedPaths, (entry) => plan.add(entry));
    const { written, skipped, planned } = plan;
    const unavailable = together(missingPaths(missing), leftOut, plan.tooLong.report());
    const isPossible = written.files + skipped.files > 0 || !plan.failed.isEmpty;
    assertSomething(unavailable, { selectedPaths, isPossible });
    const failed = together(unavailable, plan.failed.report());
    return { ...resultOf(target?.text ?? work.target, { written, skipped, failed }), planned };
  } finally {
    await target?.close();
  }
}

async function restoreFiles(work: Work): Promise<Result> {
  const { parts, payload, source } = work;
  const { from } = payload;
  const entry = from === undefined ? undefined : await findEntry(source, { from, target: work.target });
  const target = await openTarget(entry?.isFolder === false ? path.dirname(work.target) : work.target);
  try {
    if (payload.targetPath !== undefined) checkTargetPath(target.text, parts.dataDir);
    return await restoreInto(target, work, entry);
  } catch (error) {
    // Cancelled: discard the staged files. Interrupted: keep them, so that the restore can go on with them.
    if (work.isCancelled()) await parts.staging.remove(payload.restoreId);
    throw error;
  } finally {
    await target.close();
  }
}

async function restoreInto(target: OpenFolder, work: Work, entry?: ChosenEntry): Promise<Result> {
  const { payload, options, progress } = work;
  const { staging } = work.parts;
  const { restoreId, snapshotId, overwrite } = payload;
  const where = { snapshotId, target: target.bytes, disk: (await target.stat()).dev };
  const left = await staging.find(restoreId, where);
  const { staged, fetched } =
    left?.fetched === undefined ? await fetchTo(left, where, work) : { staged: left, fetched: left.fetched };
  const { selectedPaths } = payload;
  try {
    assertSomething(fetched.failed, { selectedPaths, isPossible: fetched.files > 0 });
  } catch (error) {
    await staging.remove(restoreId);
    throw error;
  }
  progress({ phase: 'placing' });
  const placed = await place(staged.folder, target, { overwrite, signal: options.signal }, entry);
  await staging.remove(restoreId);
  const { skipped, lost } = placed;
  const written = {
    files: fetched.files - skipped.files - lost.files,
    bytes: fetched.bytes - skipped.bytes - lost.bytes,
  };
  const failed = together(fetched.failed, placed.failed.report());
  return resultOf(target.text, { written, skipped, failed });
}

/** Creates nothing before it is certain that the snapshot has the files and the disk has room for them. */
async function fetchTo(left: StagedRestore | undefined, where: StagingPlace, work: Work) {
  const { source, payload, progress } = work;
  const { staging } = work.parts;
  const { restoreId, selectedPaths: selected } = payload;
  progress({ phase: 'listing' });
  const { missing, leftOut, ...expected } = await source.select(selected);
  if (left !== undefined && !source.continues) await staging.remove(restoreId);
  await assertRoom(where.target, expected);
  const staged = left !== undefined && source.continues ? left : await staging.create(restoreId, where);
  const order = { selected, expected };
  const { files, bytes, failed } = await source.fetch(staged.folder, order, (now) =>
    progress(progressOf(now)),
  );
  const fetched = { files, bytes, failed: together(missingPaths(missing), leftOut, failed) };
  await staging.keep(restoreId, { ...staged, fetched });
  return { staged, fetched };
}

async function place(
  folder: string,
  target: OpenFolder,
  options: PlaceOptions,
  entry: ChosenEntry | undefined,
): Promise<Placed> {
  const from = await openStaged(folder, entry);
  try {
    return await placeAll(
      from,
      target,
      entry?.isFolder === false ? { ...options, only: nameBytes(entry.name) } : options,
    );
  } finally {
    await from.close();
  }
}

const missingPaths = (missing: readonly string[]): PathReport => ({
  paths: missing.map((path) => ({ path, reason: 'the snapshot does not contain it' })),
  count: missing.length,
});

/** Each path once, with its first reason. */
function together(...reports: readonly PathReport[]): PathReport {
  const first = new Map<string, PathReport['paths'][number]>();
  let count = 0;
  for (const report of reports) {
    count += report.count;
    for (const each of report.paths) {
      if (first.has(each.path)) count -= 1;
      else first.set(each.path, each);
    }
  }
  return { paths: [...first.values()], count };
}

interface Outcome {
  written: Amount;
  skipped: Amount;
  failed: PathReport;
}

/**
 * Throws if nothing was fetched that could be placed. A folder above a selected file does not count.
 * @param failed  the paths that could not be fetched
 */
function assertSomething(
  failed: PathReport,
  { selectedPaths, isPossible }: { selectedPaths: readonly string[] | undefined; isPossible: boolean },
): void {
  if (failed.count === 0 || isPossible) return;
  const lost = new SelectedPaths(failed.paths.map((each) => each.path));
  if (selectedPaths?.every((each) => lost.has(each)) ?? false) throw nothingRestored(failed);
}

function resultOf(targetPath: string, { written, skipped, failed }: Outcome): Result {
  return {
    status: failed.count === 0 ? 'completed' : 'partial',
    targetPath,
    filesRestored: written.files,
    bytesRestored: written.bytes,
    filesSkipped: skipped.files,
    failed: namedPaths(failed),
  };
}

const NAMED_IN_MESSAGE = 3;

function nothingRestored({ paths, count }: PathReport): AgentError {
  const named = paths.slice(0, NAMED_IN_MESSAGE).map(({ path, reason }) => `${path}: ${reason}.`);
  const more = count > named.length ? [`And ${count - named.length} more.`] : [];
  return new AgentError('NOTHING_RESTORED', ['Nothing could be restored.', ...named, ...more].join(' '));
}

/** The file or folder of a snapshot that becomes the target itself. */
interface ChosenEntry {
  /** The parts of its path, as `pathText` writes them. */
  names: string[];
  name: string;
  isFolder: boolean;
}

/** Throws if the snapshot does not contain it, or if a file would have to be renamed. */
async function findEntry(
  source: Pick<RestoreSource, 'select'>,
  { from, target }: { from: string; target: string },
): Promise<ChosenEntry> {
  const names = canonicalPath(from)
    .split('/')
    .filter((name) => name !== '');
  const wanted = `/${names.join('/')}`;
  let type: string | undefined;
  await source.select([wanted], (entry) => {
    if (entry.path === wanted) ({ type } = entry);
  });
  const name = names.at(-1);
  if (type === undefined || name === undefined) throw new EngineError('PATH_MISSING');
  const isFolder = type === 'dir';
  if (!isFolder && path.basename(target) !== name) {
    throw targetError('TARGET_UNSAFE', 'A file keeps its name when it is restored to a place of its own.');
  }
  return { names, name, isFolder };
}

/** The fetched folder whose content is placed. No part of its path may be a link. */
async function openStaged(staged: string, entry: ChosenEntry | undefined): Promise<OpenFolder> {
  let folder = await OpenFolder.open(staged);
  if (entry === undefined) return folder;
  for (const name of entry.isFolder ? entry.names : entry.names.slice(0, -1)) {
    let next: OpenFolder;
    try {
      next = await folder.folder(nameBytes(name));
    } finally {
      await folder.close();
    }
    folder = next;
  }
  return folder;
}

/** Removes the files of a restore from the agent's folder, whether it was completed or not. */
export const discardRestore =
  (parts: RestoreParts) =>
  async ({
    restoreId,
  }: CommandPayload<'recovery.discard-restore'>): Promise<CommandOutput<'recovery.discard-restore'>> => {
    await parts.staging.remove(restoreId);
    const folder = ownFolder(parts, restoreId);
    const wasThere = await lstat(folder).then(
      () => true,
      (error: unknown) => {
        if (hasCode(error, 'ENOENT')) return false;
        throw error;
      },
    );
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    return { wasThere };
  };
