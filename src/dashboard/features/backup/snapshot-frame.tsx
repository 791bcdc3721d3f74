import { Button, Group, Text, Paper, SimpleGrid } from '@mantine/core';
import { IconGavel, IconLock } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { type BackupSnapshot, useApiChange } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  formatTime,
  formatBytes,
  formatCount,
  Action,
  endsOfDay,
  FormDialog,
  useForm,
  FactTable,
  Notice,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { DeviceLink } from './selects.tsx';
import { AsOfField, AsOfNotice, SnapshotMarks } from './snapshots-page.tsx';
import { contentText } from './texts.ts';

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

/** The frame of the page of every snapshot. Its content comes below, unless it was removed. */
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

/** Notice of a snapshot that was removed by retention or by a user, with the link to its earlier state. */
function Removed({ at, onLook }: { at: string; onLook: (asOf: string) => void }) {
  const before = new Date(new Date(at).getTime() - 1).toISOString();
  return (
    <Notice tone="warning" title={`It was removed on ${formatTime(new Date(at))}`}>
      <Group justify="space-between">
        <Text size="sm">
          Until the trash of the backup store is emptied, it can be looked at and restored.
        </Text>
        <Button size="compact-sm" variant="default" onClick={() => onLook(before)}>
          Show it as it was before that
        </Button>
      </Group>
    </Notice>
  );
}

const REFRESHES = ['GET /backup/snapshots/{id}', 'GET /backup/snapshots'] as const;
const REASON_MAX = 500;

/** The holds that keep a snapshot from being removed: a legal hold, and a time until which it is immutable. */
function Holds({ snapshot }: { snapshot: BackupSnapshot }) {
  const { legalHold, removedAt } = snapshot;
  const [opened, setOpened] = useState<'hold' | 'immutability'>();
  const close = () => setOpened(undefined);
  const write = useRefusal('backup:write');
  const gone = removedAt === null ? undefined : 'The snapshot was removed.';
  const button = { size: 'compact-sm', variant: 'default' } as const;
  return (
    <Group gap="xs">
      <Action
        {...button}
        refusal={write ?? (legalHold ? undefined : gone)}
        icon={IconGavel}
        onClick={() => setOpened('hold')}
      >
        {legalHold ? 'Release the legal hold …' : 'Hold …'}
      </Action>
      <Action {...button} refusal={write ?? gone} icon={IconLock} onClick={() => setOpened('immutability')}>
        Make immutable …
      </Action>
      {opened === 'hold' && <HoldDialog snapshot={snapshot} onClose={close} />}
      {opened === 'immutability' && <ImmutabilityDialog snapshot={snapshot} onClose={close} />}
    </Group>
  );
}

function HoldDialog({
  snapshot: { id, legalHold, legalHoldReason },
  onClose,
}: {
  snapshot: BackupSnapshot;
  onClose: () => void;
}) {
  const form = useForm({ reason: '' });
  const change = useApiChange('POST /backup/snapshots/{id}/legal-hold', { refreshes: REFRESHES });
  return (
    <FormDialog
      title={legalHold ? 'Release the legal hold' : 'Hold the snapshot'}
      onClose={onClose}
      submitLabel={legalHold ? 'Release' : 'Hold'}
      submit={() =>
        change.mutateAsync({ params: { id }, body: { enabled: !legalHold, ...given(form.values.reason) } })
      }
      form={form}
      fields={[
        {
          note: 'what',
          text: legalHold
            ? `It is held because: ${legalHoldReason ?? 'no reason was given'}. After the release, the retention may remove it.`
            : 'As long as it is held, no retention and no person removes it.',
        },
        { ...REASON, required: !legalHold },
      ]}
    />
  );
}

function ImmutabilityDialog({
  snapshot: { id, immutableUntil, isImmutable, immutabilityEnforcement },
  onClose,
}: {
  snapshot: BackupSnapshot;
  onClose: () => void;
}) {
  const form = useForm({ day: '', reason: '' });
  const change = useApiChange('POST /backup/snapshots/{id}/immutability', { refreshes: REFRESHES });
  const submit = () => {
    const { day, reason } = form.values;
    return change.mutateAsync({
      params: { id },
      body: { extendUntil: endsOfDay(day).end ?? day, ...given(reason) },
    });
  };
  const now = isImmutable && immutableUntil !== null && ` Now: ${formatTime(new Date(immutableUntil))}.`;
  return (
    <FormDialog
      title="Make the snapshot immutable"
      onClose={onClose}
      submitLabel="Make immutable"
      submit={submit}
      form={form}
      fields={[
        {
          note: 'what',
          text: <>This cannot be undone: the time can be extended, and not shortened.{now}</>,
        },
        immutabilityEnforcement === 'none' && {
          note: 'limit',
          text: 'Muster will not remove it. The device or the account of the bucket can remove the data all the same.',
        },
        { name: 'day', fault: 'extendUntil', kind: 'day', label: 'Until the end of', required: true },
        REASON,
      ]}
    />
  );
}

const REASON = {
  name: 'reason',
  kind: 'area',
  label: 'Reason',
  description: 'The audit trail keeps it.',
  maxLength: REASON_MAX,
} as const;

const given = (reason: string): { reason?: string } =>
  reason.trim() === '' ? {} : { reason: reason.trim() };

const time = (at: string | null) => (at === null ? null : formatTime(new Date(at)));
const count = (files: number | null) => (files === null ? null : formatCount(files));
const bytes = (size: number | null) => (size === null ? null : formatBytes(size));

/** The properties of a snapshot beside its files. */
function SnapshotFacts({ snapshot }: { snapshot: BackupSnapshot }) {
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
