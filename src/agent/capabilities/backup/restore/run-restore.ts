import path from 'node:path';
import { clock } from '../../../../clock.ts';
import type { CommandOutput, CommandPayload } from '../../../../protocol/index.ts';
import type { OpenFolder } from '../../../os/files/open-folder.ts';
import { AGENT_STOPS, type DurableContext, type Progress } from '../../../work/durable-handler.ts';
import type { BackupParts } from '../../../repository/backup-parts.ts';
import { STOP_MS } from '../../../repository/local-engine.ts';
import { namedPaths, progressOf } from '../../../repository/reports.ts';
import { type RepositoryWork, withRepository } from '../../../repository/repository-work.ts';
import { placeAll, type Placed, type PlaceOptions } from './place.ts';
import { RestorePlan } from './plan.ts';
import { type Amount, assertRoom } from '../../../repository/room.ts';
import { type RestoreSource, snapshotSource } from './restore-source.ts';
import { type ChosenEntry, findEntry, openStaged } from './chosen-entry.ts';
import type { StagedRestore, StagingFolders, StagingPlace } from './staging.ts';
import { checkTargetPath, findTarget, openTarget } from '../../../repository/target-folder.ts';
import { openVolume } from './volume/open-volume.ts';
import { volumeSource } from './volume/volume-source.ts';

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
  /** Whether somebody has cancelled the restore; not so where the agent stops or the time has expired. */
  isCancelled: () => boolean;
}

/** Of a restore that names no target. */
export const ownFolder = ({ folder }: Pick<RestoreParts, 'folder'>, restoreId: string): string =>
  path.join(folder, 'restored', restoreId);

/** Restores files of a snapshot. */
export const runRestore = (parts: RestoreParts) => ({
  stopMs: STOP_MS,
  run: (payload: Payload, context: DurableContext<'backup.restore'>): Promise<Output> =>
    run(parts, { payload, context }, async (use) => snapshotSource(use, payload.snapshotId)),
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
 * The files are fetched into a private folder and then moved to their place, so that nobody who may write to the target
 * can lead the restore elsewhere, and nothing at the target is touched before everything is there.
 */
async function run(
  parts: RestoreParts,
  { payload, context }: Given,
  open: (use: RepositoryWork) => Promise<RestoreSource>,
): Promise<Output> {
  const target = payload.targetPath ?? ownFolder(parts, payload.restoreId);
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
    const plan = new RestorePlan(target?.path, overwrite);
    const { missing, leftOut } = await work.source.select(selectedPaths, (entry) => plan.add(entry));
    const { written, skipped, planned } = plan;
    const failed = [...missingPaths(missing), ...leftOut, ...plan.failed];
    return { ...resultOf(target?.path ?? work.target, { written, skipped, failed }), planned };
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
    if (payload.targetPath !== undefined) checkTargetPath(target.path, parts.dataDir);
    return await restoreInto(target, work, entry);
  } catch (error) {
    // Who cancels a restore does not want its files. One that was interrupted goes on with them later.
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
  const where = { snapshotId, target: target.path, disk: (await target.stat()).dev };
  const left = await staging.find(restoreId, where);
  const { staged, fetched } =
    left?.fetched === undefined ? await fetchTo(left, where, work) : { staged: left, fetched: left.fetched };
  progress({ phase: 'placing' });
  const placed = await place(staged.folder, target, { overwrite, signal: options.signal }, entry);
  await staging.remove(restoreId);
  const { skipped } = placed;
  const written = { files: fetched.files - skipped.files, bytes: fetched.bytes - skipped.bytes };
  for (const { amount } of placed.failed) {
    written.files -= amount.files;
    written.bytes -= amount.bytes;
  }
  return resultOf(target.path, { written, skipped, failed: [...fetched.failed, ...placed.failed] });
}

/** Nothing is created before it is certain that the snapshot has the files and the disk has room for them. */
async function fetchTo(left: StagedRestore | undefined, where: StagingPlace, work: Work) {
  const { source, payload, progress } = work;
  const { staging } = work.parts;
  const { restoreId, selectedPaths: selected } = payload;
  progress({ phase: 'listing' });
  const { missing, files: expectedFiles, bytes: expectedBytes } = await source.select(selected);
  const expected = { files: expectedFiles, bytes: expectedBytes };
  if (left !== undefined && !source.continues) await staging.remove(restoreId);
  await assertRoom(where.target, expected);
  const staged = left !== undefined && source.continues ? left : await staging.create(restoreId, where);
  const order = { selected, expected };
  const { files, bytes, failed } = await source.fetch(staged.folder, order, (now) =>
    progress(progressOf(now)),
  );
  const fetched = { files, bytes, failed: [...missingPaths(missing), ...failed.paths] };
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
      entry?.isFolder === false ? { ...options, only: entry.name } : options,
    );
  } finally {
    await from.close();
  }
}

const missingPaths = (missing: readonly string[]) =>
  missing.map((each) => ({ path: each, reason: 'the snapshot does not contain it' }));

interface Outcome {
  written: Amount;
  skipped: Amount;
  failed: { path: string; reason: string }[];
}

function resultOf(targetPath: string, { written, skipped, failed }: Outcome): Result {
  return {
    status: failed.length === 0 ? 'completed' : 'partial',
    targetPath,
    filesRestored: written.files,
    bytesRestored: written.bytes,
    filesSkipped: skipped.files,
    failed: namedPaths({ paths: failed, isComplete: true }),
  };
}
