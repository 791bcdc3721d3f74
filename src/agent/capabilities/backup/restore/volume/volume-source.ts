import { clock } from '../../../../../clock.ts';
import {
  type FileSystemReader,
  ProgressMeter,
  SelectedPaths,
  type VolumeEntry,
} from '../../../../../engine/index.ts';
import { OpenFolder } from '../../../../os/files/open-folder.ts';
import { openPrivateFolder } from '../../../../os/files/private-folder.ts';
import type { RestoreSource } from '../restore-source.ts';
import { type Entry, selectFrom } from '../selection.ts';
import { whyNotHere } from './possible-name.ts';
import { TreeWriter } from './tree-writer.ts';

/** Each folder above a file is open while it is written. */
const DEPTH_MAX = 200;
const PROGRESS_MS = 250;

const KINDS: Partial<Record<VolumeEntry['type'], string>> = {
  dev: 'a device, which is not restored',
  chardev: 'a device, which is not restored',
  fifo: 'a pipe, which is not restored',
  socket: 'a socket, which is not restored',
  irregular: 'of an unknown kind',
};

/** The files of a volume of an image, which we restore ourselves. What cannot be read is named, and the rest comes. */
export function volumeSource(files: FileSystemReader, signal: AbortSignal): RestoreSource {
  async function* entries(wanted: SelectedPaths | undefined): AsyncGenerator<VolumeEntry & Entry, void> {
    const isWanted = (path: string) => wanted === undefined || wanted.has(path) || wanted.isAbove(path);
    /** How deep the folder is that is left out, and with it what is in it. */
    let leftOutAt: number | undefined;
    for await (const entry of files.tree({ enters: isWanted, signal })) {
      if (leftOutAt !== undefined && entry.depth > leftOutAt) continue;
      leftOutAt = undefined;
      // A socket is nothing without the program that has made it. restic does not restore them either.
      const isMissed = entry.type !== 'socket' || wanted?.names(entry.path) === true;
      if (!isMissed || !isWanted(entry.path)) continue;
      const leftOut = entry.leftOut ?? whyLeftOut(entry);
      if (leftOut !== undefined) leftOutAt = entry.depth;
      yield { ...entry, leftOut, size: entry.sizeBytes, mtime: entry.inode?.modifiedAt };
    }
  }

  return {
    continues: true,
    isPathLimited: false,
    select: (selected, onEntry) => selectFrom(entries, selected, onEntry),
    async fetch(folder, { selected, expected }, onProgress) {
      const meter = new ProgressMeter();
      let reportedAt = 0;
      const root = await OpenFolder.open(await openPrivateFolder(folder));
      const writer = new TreeWriter(root, {
        signal,
        onWritten({ files: done, bytes }, currentFile) {
          const now = clock.monotonic();
          if (now - reportedAt < PROGRESS_MS) return;
          reportedAt = now;
          const total = { totalBytes: expected.bytes, totalFiles: expected.files };
          onProgress(meter.measure({ files: done, bytes, ...total, currentFile }, now));
        },
      });
      try {
        const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
        for await (const entry of entries(wanted)) await writer.add(entry);
      } finally {
        await writer.end();
      }
      return writer.result();
    },
  };
}

const whyLeftOut = ({ type, depth, name }: VolumeEntry): string | undefined =>
  KINDS[type] ?? (depth > DEPTH_MAX ? 'in too many folders' : whyNotHere(name));
