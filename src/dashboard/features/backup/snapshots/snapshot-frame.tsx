import { Alert, Button, Group, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { BackupSnapshot } from '../../../api/index.ts';
import { formatTime } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { DeviceLink } from '../parts/device-names.tsx';
import { AsOfField, AsOfNotice } from './as-of.tsx';
import { Holds } from './holds.tsx';
import { SnapshotFacts } from './snapshot-facts.tsx';
import { SnapshotMarks } from './snapshot-table.tsx';

const route = getRouteApi('/signed-in/backup/snapshots/$snapshotId');
type Search = ReturnType<typeof route.useSearch>;

/** Leads from the files of a volume back to what it is part of. */
export const NO_VOLUME = { machine: undefined, disk: undefined, partition: undefined, path: undefined };

/** The state of the store that is shown, and the way to other ones. */
export function useSnapshotSearch({ removedAt }: BackupSnapshot) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const go = (next: Partial<Search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }) });
  const isGone = removedAt !== null && search.asOf === undefined;
  return { search, go, removal: isGone ? 'It was removed: choose a time before that.' : undefined };
}

/** What the page of every snapshot has. What is in it comes below, unless it was removed. */
export function SnapshotFrame({
  snapshot,
  actions,
  children,
}: {
  snapshot: BackupSnapshot;
  actions: ReactNode;
  children: ReactNode;
}) {
  const { createdAt, removedAt, provider } = snapshot;
  const {
    search: { asOf },
    go,
  } = useSnapshotSearch(snapshot);
  return (
    <BackupFrame
      title={`Snapshot of ${formatTime(new Date(createdAt))}`}
      description={
        <Group gap="xs">
          <DeviceLink id={snapshot.deviceId} />
          <SnapshotMarks snapshot={snapshot} />
        </Group>
      }
      actions={actions}
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
      {removedAt !== null && asOf === undefined ? (
        <Removed at={removedAt} onLook={(before) => go({ asOf: before })} />
      ) : (
        children
      )}
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
