import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { restore } from '../../../../engine/index.ts';
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
import { readSelection } from './selection.ts';
import { type ChosenEntry, findEntry, openStaged } from './chosen-entry.ts';
import type { StagedRestore, StagingFolders, StagingPlace } from './staging.ts';
import { checkTargetPath, findTarget, openTarget } from '../../../repository/target-folder.ts';

type Payload = CommandPayload<'backup.restore'>;
type Output = CommandOutput<'backup.restore'>;
type Result = Omit<Output, 'seconds'>;

export interface RestoreParts extends BackupParts {
  staging: StagingFolders;
}

interface Work extends RepositoryWork {
  parts: RestoreParts;
  payload: Payload;
  target: string;
  progress: (progress: Progress) => void;
  /** Whether somebody has cancelled the restore; not so where the agent stops or the time has expired. */
  isCancelled: () => boolean;
}

/** Of a restore that names no target. */
export const ownFolder = ({ folder }: Pick<RestoreParts, 'folder'>, restoreId: string): string =>
  path.join(folder, 'restored', restoreId);

/**
 * Restores files of a snapshot. They are fetched into a private folder and then moved to their place, so that nobody who
 * may write to the target can lead restic elsewhere, and nothing at the target is touched before everything is there.
 */
export const runRestore = (parts: RestoreParts) => ({
  stopMs: STOP_MS,
  async run(payload: Payload, context: DurableContext<'backup.restore'>): Promise<Output> {
    const target = payload.targetPath ?? ownFolder(parts, payload.restoreId);
    if (payload.targetPath !== undefined) checkTargetPath(target, parts.dataDir);
    const isCancelled = () => context.signal.aborted && context.signal.reason !== AGENT_STOPS;
    const startedAt = performance.now();
    const { progress } = context;
    return withRepository(parts, { payload, context }, async (use) => {
      const work = { ...use, parts, payload, target, progress, isCancelled };
      const result = await (payload.dryRun ? planRestore(work) : restoreFiles(work));
      return { ...result, seconds: (performance.now() - startedAt) / 1000 };
    });
  },
});

async function planRestore(work: Work): Promise<Result> {
  const { engine, repository, options } = work;
  const { snapshotId, selectedPaths, overwrite } = work.payload;
  const target = await findTarget(work.target);
  try {
    const plan = new RestorePlan(target?.path, overwrite);
    const query = { snapshotId, selected: selectedPaths };
    const { missing } = await readSelection(engine, repository, query, options, (entry) => plan.add(entry));
    const { written, skipped, planned } = plan;
    const failed = [...missingPaths(missing), ...plan.failed];
    return { ...resultOf(target?.path ?? work.target, { written, skipped, failed }), planned };
  } finally {
    await target?.close();
  }
}

async function restoreFiles(work: Work): Promise<Result> {
  const { parts, payload } = work;
  const entry = payload.from === undefined ? undefined : await findEntry(work, payload.from);
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
  const { engine, repository, payload, options, progress } = work;
  const { staging } = work.parts;
  const { restoreId, snapshotId, selectedPaths: selected } = payload;
  progress({ phase: 'listing' });
  const { missing, ...expected } = await readSelection(engine, repository, { snapshotId, selected }, options);
  const isUsable = left !== undefined && engine.program.capabilities.restoreContinues;
  if (left !== undefined && !isUsable) await staging.remove(restoreId);
  await assertRoom(where.target, expected);
  const staged = isUsable ? left : await staging.create(restoreId, where);
  const { files, bytes, failed } = await restore(
    engine,
    repository,
    { snapshotId, target: staged.folder, expected, ...(selected === undefined ? {} : { selected }) },
    { ...options, onProgress: (now) => progress(progressOf(now)) },
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
