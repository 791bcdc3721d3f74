import { Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type BackupSnapshot } from '../../../../api/index.ts';
import { Empty, Loaded } from '../../../../ui/index.ts';
import { notHere } from '../../parts/choose-image.tsx';
import { NO_VOLUME, useSnapshotSearch } from '../snapshot-frame.tsx';
import { VolumeFiles } from './volume-files.tsx';
import { VolumeTable } from './volume-table.tsx';

/** The file systems of an image, or the files of the one that is opened. */
export function ImageFiles({
  snapshot,
  machines = [],
}: {
  snapshot: BackupSnapshot;
  /** Of a snapshot of machines: those of which one is looked into. */
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
