import { Paper } from '@mantine/core';
import type { BackupSnapshot } from '../../../api/index.ts';
import { formatBytes, formatCount, formatTime } from '../../../ui/index.ts';
import { FactTable } from '../parts/facts.tsx';

const time = (at: string | null) => (at === null ? null : formatTime(new Date(at)));
const bytes = (size: number | null) => (size === null ? null : formatBytes(size));

/** What is known of a snapshot beside its files. */
export function SnapshotFacts({ snapshot }: { snapshot: BackupSnapshot }) {
  const { paths, fileCount, changedFiles } = snapshot;
  return (
    <Paper withBorder p="xs">
      <FactTable
        label="Facts of the snapshot"
        facts={[
          ['What', paths.length === 0 ? null : paths.join(', ')],
          ['Begun, by the device', time(snapshot.takenAt)],
          ['Size', bytes(snapshot.sizeBytes)],
          ['Added to the store', bytes(snapshot.addedBytes)],
          ['Files', fileCount === null ? null : formatCount(fileCount)],
          ['New or changed', changedFiles === null ? null : formatCount(changedFiles)],
          ['Held because', snapshot.legalHoldReason],
          ['Immutable until', snapshot.isImmutable ? time(snapshot.immutableUntil) : null],
        ]}
      />
    </Paper>
  );
}
