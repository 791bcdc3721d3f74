import { Anchor, Group } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore } from '@tabler/icons-react';
import { useState } from 'react';
import type { BackupSnapshot } from '../../../../api/index.ts';
import { Action, Failure } from '../../../../ui/index.ts';
import { placeName, type VolumePlace } from '../../parts/content-text.ts';
import { RestoreWizard } from '../../restores/restore-wizard.tsx';
import { FolderEntries } from '../entries.tsx';
import { NO_VOLUME, useSnapshotSearch } from '../snapshot-frame.tsx';
import { Trail } from '../trail.tsx';
import { useSnapshotDownload } from '../use-snapshot-download.ts';

/** The files of one volume of an image: to look at, to download, and to restore. */
export function VolumeFiles({ snapshot, volume }: { snapshot: BackupSnapshot; volume: VolumePlace }) {
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
            leftSection={<IconDownload size={14} aria-hidden />}
            onClick={() => fetching.begin(path)}
          >
            Download this folder
          </Action>
          <Action
            refusal={fetching.refusal}
            leftSection={<IconRestore size={14} aria-hidden />}
            onClick={open}
          >
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
