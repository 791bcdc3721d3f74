import { Anchor, Breadcrumbs, Group, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore, IconSearch } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, download } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Failure, formatTime, Loaded, saveFile } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink } from '../parts/device-names.tsx';
import { RestoreWizard } from '../restores/restore-wizard.tsx';
import { FolderEntries, FoundEntries } from './entries.tsx';
import { SnapshotMarks } from './snapshot-table.tsx';

const route = getRouteApi('/signed-in/backup/snapshots/$snapshotId');

/** The files of a snapshot: to look at, to download, and to restore. */
export function SnapshotPage() {
  const { snapshotId } = route.useParams();
  return <OneSnapshot key={snapshotId} id={snapshotId} />;
}

function OneSnapshot({ id }: { id: string }) {
  const { path = '/', q, page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isOpen, { open, close }] = useDisclosure(false);
  const refusal = useRefusal('recovery:execute');
  const snapshot = useQuery(apiQuery('GET /backup/snapshots/{id}', { params: { id } }));
  const go = (next: { path?: string | undefined; q?: string | undefined; page?: number }) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }) });
  const searchFor = useDebouncedCallback((text: string) => go({ q: text === '' ? undefined : text }), 400);
  const fetching = useMutation({
    mutationFn: async (wanted: string) => {
      const query = { path: wanted === '/' ? undefined : wanted };
      const { blob, name } = await download('GET /backup/snapshots/{id}/download', { params: { id }, query });
      saveFile(name ?? 'snapshot', blob);
    },
  });
  const toggle = (entry: string) => {
    const next = new Set(chosen);
    if (!next.delete(entry)) next.add(entry);
    setChosen(next);
  };
  const entries = {
    id,
    chosen,
    onToggle: toggle,
    onOpen: (folder: string) => go({ path: folder, q: undefined }),
    onDownload: (entry: string) => fetching.mutate(entry),
    refusal: refusal ?? (fetching.isPending ? 'A download is being prepared.' : undefined),
  };
  return (
    <Loaded query={snapshot} what="Reading the snapshot">
      {(shown) => (
        <BackupFrame
          title={`Snapshot of ${formatTime(new Date(shown.createdAt))}`}
          description={
            <Group gap="xs">
              <DeviceLink id={shown.deviceId} />
              <SnapshotMarks snapshot={shown} />
            </Group>
          }
          actions={
            <>
              <Action
                variant="default"
                refusal={refusal}
                loading={fetching.isPending}
                leftSection={<IconDownload size={14} aria-hidden />}
                onClick={() => fetching.mutate(path)}
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
            <Trail path={path} onOpen={(folder) => go({ path: folder, q: undefined })} />
            <TextInput
              key={path}
              w={260}
              aria-label="Search names in this folder and below"
              placeholder="Search names from here on"
              leftSection={<IconSearch size={14} aria-hidden />}
              defaultValue={q ?? ''}
              onChange={(event) => searchFor(event.currentTarget.value)}
            />
          </Group>
          {fetching.error !== null && <Failure error={fetching.error} />}
          {q === undefined ? (
            <FolderEntries {...entries} path={path} page={page} onPage={(next) => go({ page: next })} />
          ) : (
            <FoundEntries {...entries} path={path} name={q} />
          )}
          {isOpen && <RestoreWizard snapshot={shown} chosen={[...chosen]} onClose={close} />}
        </BackupFrame>
      )}
    </Loaded>
  );
}

/** The folders from the root to the one that is shown. */
function Trail({ path, onOpen }: { path: string; onOpen: (path: string | undefined) => void }) {
  const names = path.split('/').filter((name) => name !== '');
  return (
    <Breadcrumbs component="nav" aria-label="Folder" separatorMargin={6}>
      {['Snapshot', ...names].map((name, depth) => {
        const folder = depth === 0 ? undefined : `/${names.slice(0, depth).join('/')}`;
        return depth === names.length ? (
          <Text key={folder ?? '/'} size="sm" fw={600} aria-current="page">
            {name}
          </Text>
        ) : (
          <Anchor
            key={folder ?? '/'}
            component="button"
            type="button"
            size="sm"
            onClick={() => onOpen(folder)}
          >
            {name}
          </Anchor>
        );
      })}
    </Breadcrumbs>
  );
}
