import { type EngineProgress, type PathReport, restore } from '../../../../engine/index.ts';
import type { RepositoryWork } from '../../../repository/repository-work.ts';
import type { Amount } from '../../../repository/room.ts';
import { type OnEntry, readSelection, type Selection } from './selection.ts';

type Selected = readonly string[] | undefined;

/** Where the files of a restore come from. Everything else about a restore is the same for all of them. */
export interface RestoreSource {
  /** Reads what will be written. Throws PATH_MISSING where nothing of it is there. */
  select(selected: Selected, onEntry?: OnEntry): Promise<Selection>;
  /** Whether `fetch` goes on with what it has left when it was interrupted. */
  continues: boolean;
  /** Writes into a private folder, each file below its whole path. */
  fetch(
    folder: string,
    order: { selected: Selected; expected: Amount },
    onProgress: (progress: EngineProgress) => void,
  ): Promise<Amount & { failed: PathReport }>;
}

/** The files of a snapshot, which restic restores. */
export const snapshotSource = (
  { engine, repository, options }: RepositoryWork,
  snapshotId: string,
): RestoreSource => ({
  continues: engine.program.capabilities.restoreContinues,
  select: (selected, onEntry) =>
    readSelection(engine, repository, { snapshotId, selected }, options, onEntry),
  fetch: (target, { selected, expected }, onProgress) =>
    restore(
      engine,
      repository,
      { snapshotId, target, expected, ...(selected === undefined ? {} : { selected: [...selected] }) },
      { ...options, onProgress },
    ),
});
