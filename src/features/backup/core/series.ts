import type { SnapshotDetails } from '../../../protocol/index.ts';

/** What a snapshot holds, for the retention; `undefined` where all snapshots of its repository hold the same. */
export const seriesOf = (details: SnapshotDetails | null): string[] | undefined =>
  details?.kind === 'machines' ? details.machines.map(({ id }) => id) : undefined;
