import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { SnapshotId } from '../output/documents.ts';
import { runLines } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';

export interface CopyOptions extends RunOptions {
  /** Called with the number of snapshots that are done, and with the share of the one that is being copied. */
  onProgress?: (snapshots: number, share: number) => void;
}

/**
 * Copies snapshots into another repository, all where none is named. Those that are there already are skipped, and so
 * are ids that the source does not have. A copy gets an id of its own, and `original` holds the id that it was copied
 * from.
 */
export async function copySnapshots(
  engine: Engine,
  { from, to }: { from: Repository; to: Repository },
  snapshotIds: readonly string[] = [],
  { onProgress, ...options }: CopyOptions = {},
): Promise<void> {
  const ids = snapshotIds.map((id) => SnapshotId.parse(id));
  let done = 0;
  const end = await runLines(
    engine,
    { ...options, repository: to, from, args: () => ['copy', ...ids] },
    (line) => {
      const share = shareOf(line);
      if (IS_DONE.test(line)) onProgress?.((done += 1), 0);
      else if (share !== undefined) onProgress?.(done, share);
    },
  );
  if (end.exitCode !== 0) throw end.failure();
}

/** `copy` prints text, also with `--json`. */
const IS_DONE = /^(snapshot [0-9a-f]{8,64} saved|skipping source snapshot )/;

function shareOf(line: string): number | undefined {
  const [, percent] = /(\d{1,3}\.\d\d)% .{0,100}packs copied/.exec(line) ?? [];
  return percent === undefined ? undefined : Math.min(1, Number(percent) / 100);
}
