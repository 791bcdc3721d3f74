import { Select, Anchor, Group } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, type BackupSnapshot, type SnapshotMachine } from '../../api/index.ts';
import { Empty, Loaded, Action, formatBytes, PagedTable, Failure } from '../../ui/index.ts';
import { notHere } from './choose-image.tsx';
import { NO_VOLUME, useSnapshotSearch } from './snapshot-frame.tsx';
import { placeName, type VolumePlace } from './texts.ts';
import { RestoreWizard } from './restore-wizard.tsx';
import { FolderEntries, Trail, useSnapshotDownload } from './snapshot-entries.tsx';

/** The file systems of an image, or the files of the one that is opened. */
export function ImageFiles({
  snapshot,
  machines = [],
}: {
  snapshot: BackupSnapshot;
  /** For a snapshot of machines: the machines, one of which is shown. */
  machines?: readonly { id: string; name: string }[];
}) {
  const { search, go } = useSnapshotSearch(snapshot);
  const { disk, partition, machine = machines[0]?.id } = search;
  const elsewhere = notHere(snapshot);
  if (elsewhere !== undefined) return <Empty title="Its files cannot be shown">{elsewhere}</Empty>;
  return (
    <>
      {machines.length > 1 && (
        <Select
          label="Machine"
          w={280}
          searchable
          allowDeselect={false}
          data={machines.map(({ id, name }) => ({ value: id, label: name }))}
          value={machine ?? null}
          onChange={(next) => go({ ...NO_VOLUME, machine: next ?? undefined })}
        />
      )}
      {disk === undefined ? (
        <FileSystems key={machine} snapshot={snapshot} machine={machine} />
      ) : (
        <VolumeFiles
          key={`${machine} ${disk} ${partition}`}
          snapshot={snapshot}
          volume={{ machine, disk, partition }}
        />
      )}
    </>
  );
}

function FileSystems({ snapshot, machine }: { snapshot: BackupSnapshot; machine: string | undefined }) {
  const { search, go } = useSnapshotSearch(snapshot);
  const described = useQuery({
    ...apiQuery('GET /backup/snapshots/{id}/machine', {
      params: { id: snapshot.id },
      query: { machine, asOf: search.asOf },
    }),
    // A snapshot does not change, and to read this opens its whole image.
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={described} what="Reading the file systems">
      {(shown) => (
        <VolumeTable
          machine={shown}
          onOpen={({ disk, partition }) => go({ machine, disk, partition, path: undefined })}
        />
      )}
    </Loaded>
  );
}

/** The files of one volume of an image: to look at, to download, and to restore. */
function VolumeFiles({ snapshot, volume }: { snapshot: BackupSnapshot; volume: VolumePlace }) {
  const { search, go } = useSnapshotSearch(snapshot);
  const { path = '/', page = 1, asOf } = search;
  const fetching = useSnapshotDownload(snapshot, volume);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isOpen, { open, close }] = useDisclosure(false);
  const toggle = (entry: string) => {
    const next = new Set(chosen);
    if (!next.delete(entry)) next.add(entry);
    setChosen(next);
  };
  return (
    <>
      <Group justify="space-between">
        <Group gap="sm">
          <Anchor
            component="button"
            type="button"
            size="sm"
            onClick={() => go({ ...NO_VOLUME, machine: volume.machine })}
          >
            All file systems
          </Anchor>
          <Trail
            root={placeName(volume.disk, volume.partition)}
            path={path}
            onOpen={(folder) => go({ path: folder })}
          />
        </Group>
        <Group gap="xs">
          <Action
            variant="default"
            refusal={fetching.refusal}
            loading={fetching.isPending}
            icon={IconDownload}
            onClick={() => fetching.begin(path)}
          >
            Download this folder
          </Action>
          <Action refusal={fetching.refusal} icon={IconRestore} onClick={open}>
            {chosen.size === 0 ? 'Restore to a device …' : `Restore ${chosen.size} chosen to a device …`}
          </Action>
        </Group>
      </Group>
      {fetching.error !== null && <Failure error={fetching.error} />}
      <FolderEntries
        id={snapshot.id}
        volume={volume}
        path={path}
        page={page}
        onPage={(next) => go({ page: next })}
        asOf={asOf}
        choice={{ chosen, onToggle: toggle }}
        onOpen={(folder) => go({ path: folder })}
        onDownload={fetching.begin}
        refusal={fetching.refusalOfAnother}
      />
      {isOpen && (
        <RestoreWizard snapshot={snapshot} volume={volume} asOf={asOf} chosen={[...chosen]} onClose={close} />
      )}
    </>
  );
}

type Volume = SnapshotMachine['disks'][number]['volumes'][number];

const VOLUME_NAMES: Readonly<Record<Volume['type'], string>> = {
  ext: 'ext2, ext3 or ext4',
  xfs: 'XFS',
  btrfs: 'Btrfs',
  vfat: 'FAT',
  ntfs: 'NTFS',
  swap: 'Swap',
  lvm: 'LVM',
  luks: 'LUKS, encrypted',
  unknown: 'Not known',
};

/** Why the files of a volume cannot be looked at. */
function noBrowsing({ type, content }: Pick<Volume, 'type' | 'content'>): string | undefined {
  if (type === 'swap') return 'Swap space holds no files.';
  if (type === 'unknown') return 'No file system was recognized in it.';
  if (type !== 'ext') {
    return `What is in ${VOLUME_NAMES[type]} is not read here. Restore the disk, or start the machine from the snapshot.`;
  }
  return content === 'header' ? 'Only the head of this file system was saved.' : undefined;
}

/** Where the machine mounts a volume, as its own table of file systems says. */
function mountPoint(
  fstab: string | null,
  { uuid, label }: Pick<Volume, 'uuid' | 'label'>,
): string | undefined {
  const names = [uuid && `uuid=${uuid}`, label && `label=${label}`].map((name) => name?.toLowerCase());
  for (const line of fstab?.split('\n') ?? []) {
    const [device = '', place] = line.trim().split(/\s+/);
    if (names.includes(device.replaceAll('"', '').toLowerCase()) && place?.startsWith('/')) return place;
  }
  return undefined;
}

/** The volumes of all disks of a machine, with the way into those whose files can be read. */
function VolumeTable({
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
