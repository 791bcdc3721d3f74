import { Paper, SimpleGrid } from '@mantine/core';
import type { BackupSnapshot } from '../../../api/index.ts';
import { formatBytes, formatCount, formatTime } from '../../../ui/index.ts';
import { FactTable } from '../parts/facts.tsx';
import { contentText } from '../parts/content-text.ts';

const time = (at: string | null) => (at === null ? null : formatTime(new Date(at)));
const count = (files: number | null) => (files === null ? null : formatCount(files));
const bytes = (size: number | null) => (size === null ? null : formatBytes(size));

/** What is known of a snapshot beside its files. */
export function SnapshotFacts({ snapshot }: { snapshot: BackupSnapshot }) {
  const { details, paths, fileCount, changedFiles } = snapshot;
  return (
    <Paper withBorder p="xs">
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xs">
        <FactTable
          label="What was backed up"
          facts={[
            ['What', details === null && paths.length === 0 ? null : contentText(snapshot)],
            ['Started (device)', time(snapshot.takenAt)],
            ['Held because', snapshot.legalHoldReason],
            ['Immutable until', snapshot.isImmutable ? time(snapshot.immutableUntil) : null],
          ]}
        />
        <FactTable
          label="How much it is"
          facts={[
            ['Size', bytes(snapshot.sizeBytes)],
            ['Added to the store', bytes(snapshot.addedBytes)],
            ['Files', details === null ? count(fileCount) : null],
            ['New or changed', details === null ? count(changedFiles) : null],
          ]}
        />
      </SimpleGrid>
    </Paper>
  );
}
