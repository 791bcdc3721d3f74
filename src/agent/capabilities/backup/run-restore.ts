import path from 'node:path';
import { clock } from '../../../../clock.ts';
import type { CommandOutput, CommandPayload } from '../../../../protocol/index.ts';
import { type PathReport, SelectedPaths } from '../../../../engine/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import type { OpenFolder } from '../../../os/files/open-folder.ts';
import { nameBytes, oneText } from '../../../os/files/path-bytes.ts';
import { AGENT_STOPS, type DurableContext, type Progress } from '../../../work/durable-handler.ts';
import type { BackupParts } from '../../../repository/backup-parts.ts';
import { STOP_MS } from '../../../repository/local-engine.ts';
import { namedPaths, progressOf } from '../../../repository/reports.ts';
import { snapshotNames } from '../../../repository/snapshot-names.ts';
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
 * The files are fetched into a private folder and then moved to their place, so that nobody who may write to the target
 * can lead the restore elsewhere, and nothing at the target is touched before everything is there.
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

/** Nothing is created before it is certain that the snapshot has the files and the disk has room for them. */
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

/** Each path once, with the first reason that was given for it. */
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
 * Throws where there is nothing to place of what should be. A folder above a selected file is none of it.
 * @param failed  what could not be fetched
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
