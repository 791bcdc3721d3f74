import { type EngineProgress, type PathReport, restore } from '../../../../engine/index.ts';
import type { Amount } from '../../../repository/room.ts';
import {
  type ListedSnapshot,
  type OnEntry,
  readSelection,
  type Selected,
  selectedFiles,
  type Selection,
} from './selection.ts';

/** Where the files of a restore come from. Everything else about a restore is the same for all of them. */
export interface RestoreSource {
  /** Reads what will be written. Throws PATH_MISSING where nothing of it is there. */
  select(selected: Selected, onEntry?: OnEntry): Promise<Selection>;
  /** Whether `fetch` goes on with what it has left when it was interrupted. */
  continues: boolean;
  /** Whether `fetch` opens each file by its whole path below the folder, which systems limit. */
  isPathLimited: boolean;
  /**
   * Writes into a private folder, each file below its whole path, and counts what lies there then. What it was to write and
   * has not, it names.
   */
  fetch(
    folder: string,
    order: { selected: Selected; expected: Amount },
    onProgress: (progress: EngineProgress) => void,
  ): Promise<Amount & { failed: PathReport }>;
}

/** The files of a snapshot, which restic restores. */
export const snapshotSource = (snapshot: ListedSnapshot): RestoreSource => ({
  continues: snapshot.engine.program.capabilities.restoreContinues,
  isPathLimited: true,
  select: (selected, onEntry) => readSelection(snapshot, selected, onEntry),
  fetch: (target, { selected, expected }, onProgress) =>
    restore(
      snapshot.engine,
      snapshot.repository,
      {
        snapshotId: snapshot.snapshotId,
        target,
        expected,
        ...(selected === undefined ? {} : { selected: [...selected] }),
      },
      { ...snapshot.options, onProgress, listExpected: () => selectedFiles(snapshot, selected) },
    ),
});
