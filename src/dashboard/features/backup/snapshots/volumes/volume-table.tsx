import type { SnapshotMachine } from '../../../../api/index.ts';
import { Action, Empty, formatBytes, PagedTable } from '../../../../ui/index.ts';
import { placeName } from '../../parts/content-text.ts';
import { mountPoint, noBrowsing, VOLUME_NAMES } from './volume-texts.ts';

/** The volumes of all disks of a machine, with the way into those whose files can be read. */
export function VolumeTable({
  machine: { disks, fstab },
  onOpen,
}: {
  machine: SnapshotMachine;
  onOpen: (place: { disk: string; partition: number | undefined }) => void;
}) {
  const rows = disks.flatMap(({ name: disk, volumes }) =>
    volumes.map((volume) => ({ disk, name: placeName(disk, volume.partition), ...volume })),
  );
  if (rows.length === 0) {
    return <Empty title="No file systems">Nothing on the disks was recognized as one.</Empty>;
  }
  return (
    <PagedTable
      label="File systems"
      rows={rows}
      keyOf={({ disk, offset }) => `${disk} ${offset}`}
      columns={[
        { header: 'Place', isName: true, cell: ({ name }) => name },
        { header: 'File system', cell: ({ type }) => VOLUME_NAMES[type] },
        { header: 'Name', cell: ({ label }) => label || '–' },
        { header: 'Mounted at', cell: (volume) => mountPoint(fstab, volume) ?? '–' },
        { header: 'Size', align: 'right', width: 100, cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
        {
          header: 'Files',
          width: 110,
          cell: ({ disk, partition, type, content }) => (
            <Action
              size="compact-xs"
              variant="light"
              refusal={noBrowsing({ type, content })}
              onClick={() => onOpen({ disk, partition: partition ?? undefined })}
            >
              Browse
            </Action>
          ),
        },
      ]}
    />
  );
}
