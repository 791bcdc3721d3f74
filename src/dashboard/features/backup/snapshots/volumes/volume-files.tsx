import { Anchor, Group } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import type { BackupSnapshot } from '../../../../api/index.ts';
import { Action, Failure } from '../../../../ui/index.ts';
import { FolderEntries } from '../entries.tsx';
import { NO_VOLUME, useSnapshotSearch } from '../snapshot-frame.tsx';
import { Trail } from '../trail.tsx';
import { useSnapshotDownload, type VolumePlace } from '../use-snapshot-download.ts';
import { placeName } from './volume-texts.ts';

/** The files of one volume of an image: to look at, and to download. */
export function VolumeFiles({ snapshot, volume }: { snapshot: BackupSnapshot; volume: VolumePlace }) {
  const { search, go } = useSnapshotSearch(snapshot);
  const { path = '/', page = 1, asOf } = search;
  const fetching = useSnapshotDownload(snapshot, volume);
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
        <Action
          variant="default"
          refusal={fetching.refusal}
          loading={fetching.isPending}
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={() => fetching.begin(path)}
        >
          Download this folder
        </Action>
      </Group>
      {fetching.error !== null && <Failure error={fetching.error} />}
      <FolderEntries
        id={snapshot.id}
        volume={volume}
        path={path}
        page={page}
        onPage={(next) => go({ page: next })}
        asOf={asOf}
        onOpen={(folder) => go({ path: folder })}
        onDownload={fetching.begin}
        refusal={fetching.refusalOfAnother}
      />
    </>
  );
}
