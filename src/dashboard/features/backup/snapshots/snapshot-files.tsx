import { Group, SegmentedControl, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore, IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import type { BackupSnapshot } from '../../../api/index.ts';
import { Action, Failure } from '../../../ui/index.ts';
import { RestoreWizard } from '../restores/restore-wizard.tsx';
import { SnapshotChanges } from './changes.tsx';
import { FolderEntries, FoundEntries } from './entries.tsx';
import { SnapshotFrame, useSnapshotSearch } from './snapshot-frame.tsx';
import { Trail } from './trail.tsx';
import { useSnapshotDownload } from './use-snapshot-download.ts';

/** The files of a snapshot: to look at, to compare, to download, and to restore. */
export function SnapshotFiles({ snapshot }: { snapshot: BackupSnapshot }) {
  const { id } = snapshot;
  const { search, go } = useSnapshotSearch(snapshot);
  const { path = '/', q, page = 1, asOf, view = 'files', against } = search;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isOpen, { open, close }] = useDisclosure(false);
  const searchFor = useDebouncedCallback((text: string) => go({ q: text === '' ? undefined : text }), 400);
  const fetching = useSnapshotDownload(snapshot);
  const toggle = (entry: string) => {
    const next = new Set(chosen);
    if (!next.delete(entry)) next.add(entry);
    setChosen(next);
  };
  const { refusal } = fetching;
  const entries = {
    id,
    asOf,
    choice: { chosen, onToggle: toggle },
    onOpen: (folder: string) => go({ path: folder, q: undefined }),
    onDownload: fetching.begin,
    refusal: fetching.refusalOfAnother,
  };
  return (
    <SnapshotFrame
      snapshot={snapshot}
      actions={
        <>
          <Action
            variant="default"
            refusal={refusal}
            loading={fetching.isPending}
            leftSection={<IconDownload size={14} aria-hidden />}
            onClick={() => fetching.begin(path)}
          >
            Download this folder
          </Action>
          <Action refusal={refusal} leftSection={<IconRestore size={14} aria-hidden />} onClick={open}>
            {chosen.size === 0 ? 'Restore …' : `Restore ${chosen.size} chosen …`}
          </Action>
        </>
      }
    >
      <Group justify="space-between">
        <Group gap="sm">
          <SegmentedControl
            aria-label="What is shown"
            size="xs"
            data={[
              { value: 'files', label: 'Files' },
              { value: 'changes', label: 'Changes' },
            ]}
            value={view}
            onChange={(next) =>
              go({ view: next === 'changes' ? 'changes' : undefined, q: undefined, against: undefined })
            }
          />
          <Trail root="Snapshot" path={path} onOpen={(folder) => go({ path: folder, q: undefined })} />
        </Group>
        {view === 'files' && (
          <TextInput
            key={path}
            w={260}
            aria-label="Search names in this folder and below"
            placeholder="Search names from here on"
            leftSection={<IconSearch size={14} aria-hidden />}
            defaultValue={q ?? ''}
            onChange={(event) => searchFor(event.currentTarget.value)}
          />
        )}
      </Group>
      {fetching.error !== null && <Failure error={fetching.error} />}
      {view === 'changes' ? (
        <SnapshotChanges
          snapshot={snapshot}
          against={against}
          onAgainst={(next) => go({ against: next })}
          path={path}
          asOf={asOf}
          page={page}
          onPage={(next) => go({ page: next })}
        />
      ) : q === undefined ? (
        <FolderEntries {...entries} path={path} page={page} onPage={(next) => go({ page: next })} />
      ) : (
        <FoundEntries {...entries} path={path} name={q} />
      )}
      {isOpen && <RestoreWizard snapshot={snapshot} asOf={asOf} chosen={[...chosen]} onClose={close} />}
    </SnapshotFrame>
  );
}
