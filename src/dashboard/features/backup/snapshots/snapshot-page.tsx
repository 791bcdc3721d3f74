import { Alert, Anchor, Breadcrumbs, Button, Group, SegmentedControl, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconDownload, IconRestore, IconSearch } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, download, type BackupSnapshot } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Failure, formatTime, Loaded, saveFile } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink } from '../parts/device-names.tsx';
import { RestoreWizard } from '../restores/restore-wizard.tsx';
import { AsOfField, AsOfNotice } from './as-of.tsx';
import { SnapshotChanges } from './changes.tsx';
import { FolderEntries, FoundEntries } from './entries.tsx';
import { Holds } from './holds.tsx';
import { SnapshotFacts } from './snapshot-facts.tsx';
import { SnapshotMarks } from './snapshot-table.tsx';

const route = getRouteApi('/signed-in/backup/snapshots/$snapshotId');
type Search = ReturnType<typeof route.useSearch>;

/** The files of a snapshot: to look at, to compare, to download, and to restore. */
export function SnapshotPage() {
  const { snapshotId } = route.useParams();
  const snapshot = useQuery(apiQuery('GET /backup/snapshots/{id}', { params: { id: snapshotId } }));
  return (
    <Loaded query={snapshot} what="Reading the snapshot">
      {(shown) => <OneSnapshot key={snapshotId} snapshot={shown} />}
    </Loaded>
  );
}

function OneSnapshot({ snapshot }: { snapshot: BackupSnapshot }) {
  const { id, createdAt, removedAt, provider } = snapshot;
  const { path = '/', q, page = 1, asOf, view = 'files', against } = route.useSearch();
  const navigate = route.useNavigate();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isOpen, { open, close }] = useDisclosure(false);
  const go = (next: Partial<Search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }) });
  const searchFor = useDebouncedCallback((text: string) => go({ q: text === '' ? undefined : text }), 400);
  const fetching = useMutation({
    mutationFn: async (wanted: string) => {
      const query = { path: wanted === '/' ? undefined : wanted, asOf };
      const { blob, name } = await download('GET /backup/snapshots/{id}/download', { params: { id }, query });
      saveFile(name ?? 'snapshot', blob);
    },
  });
  const toggle = (entry: string) => {
    const next = new Set(chosen);
    if (!next.delete(entry)) next.add(entry);
    setChosen(next);
  };
  const isGone = removedAt !== null && asOf === undefined;
  const refusal =
    useRefusal('recovery:execute') ?? (isGone ? 'It was removed: choose a time before that.' : undefined);
  const entries = {
    id,
    asOf,
    chosen,
    onToggle: toggle,
    onOpen: (folder: string) => go({ path: folder, q: undefined }),
    onDownload: (entry: string) => fetching.mutate(entry),
    refusal: refusal ?? (fetching.isPending ? 'A download is being prepared.' : undefined),
  };
  return (
    <BackupFrame
      title={`Snapshot of ${formatTime(new Date(createdAt))}`}
      description={
        <Group gap="xs">
          <DeviceLink id={snapshot.deviceId} />
          <SnapshotMarks snapshot={snapshot} />
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
      <SnapshotFacts snapshot={snapshot} />
      <Group justify="space-between">
        <Holds snapshot={snapshot} />
        {provider === 'server' && (
          <Group gap="xs">
            <AsOfField asOf={asOf} onChange={(next) => go({ asOf: next })} />
            <Button size="compact-sm" variant="subtle" onClick={() => go({ asOf: createdAt })}>
              When it arrived
            </Button>
          </Group>
        )}
      </Group>
      {asOf !== undefined && <AsOfNotice asOf={asOf} onEnd={() => go({ asOf: undefined })} />}
      {isGone ? (
        <Removed at={removedAt} onLook={(before) => go({ asOf: before })} />
      ) : (
        <>
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
              <Trail path={path} onOpen={(folder) => go({ path: folder, q: undefined })} />
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
        </>
      )}
      {isOpen && <RestoreWizard snapshot={snapshot} asOf={asOf} chosen={[...chosen]} onClose={close} />}
    </BackupFrame>
  );
}

/** The way back to a snapshot that retention, or somebody, has removed. */
function Removed({ at, onLook }: { at: string; onLook: (asOf: string) => void }) {
  const before = new Date(new Date(at).getTime() - 1).toISOString();
  return (
    <Alert color="orange" title={`It was removed on ${formatTime(new Date(at))}`}>
      <Group justify="space-between">
        <Text size="sm">
          Until the trash of the backup store is emptied, it can be looked at and restored.
        </Text>
        <Button size="compact-sm" variant="default" onClick={() => onLook(before)}>
          Show it as it was before that
        </Button>
      </Group>
    </Alert>
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
