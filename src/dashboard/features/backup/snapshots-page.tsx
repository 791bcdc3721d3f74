import { Group, Button, Text, TextInput } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { BackupFrame } from './backup-frame.tsx';
import { DeviceSelect, DeviceLink } from './selects.tsx';
import { IconHistory } from '@tabler/icons-react';
import { useState } from 'react';
import { type BackupSnapshot, useList } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import {
  formatBytes,
  formatCount,
  formatTime,
  StateBadge,
  When,
  type Column,
  TextLink,
  List,
  Notice,
} from '../../ui/index.ts';
import { contentText, fromLocalField, localField } from './texts.ts';

const route = getRouteApi('/signed-in/backup/snapshots');

/** The snapshots that can be restored: of all devices, or of one. */
export function SnapshotsPage() {
  const { device, config, asOf, page } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  return (
    <BackupFrame title="Snapshots" description="Each one is a whole state of what was backed up.">
      <Group>
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next })}
        />
        <AsOfField asOf={asOf} onChange={(next) => change({ asOf: next })} />
      </Group>
      {asOf !== undefined && <AsOfNotice asOf={asOf} onEnd={() => change({ asOf: undefined })} />}
      <SnapshotTable
        asOf={asOf}
        deviceId={device}
        configId={config}
        page={page ?? 1}
        onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
      />
    </BackupFrame>
  );
}

/** Snapshots, the newest first. With a device, only its own. */
export function SnapshotTable({
  deviceId,
  configId,
  asOf,
  page,
  onPage,
  hidesDevice = false,
}: {
  deviceId: string | undefined;
  configId?: string | undefined;
  /** The state of the backup store that is listed; without it, that of now. */
  asOf?: string | undefined;
  page: number;
  onPage: (page: number) => void;
  hidesDevice?: boolean;
}) {
  const { orgId } = scopeQuery(useScope());
  const snapshots = useList('GET /backup/snapshots', {
    query: { orgId, deviceId, configId, asOf, page: String(page) },
  });
  const device: Column<BackupSnapshot> = {
    header: 'Device',
    cell: (row) => <DeviceLink id={row.deviceId} />,
  };
  return (
    <List
      query={snapshots}
      noun="snapshots"
      keyOf={({ id }) => id}
      onPage={onPage}
      empty={{
        title: 'No snapshots',
        text:
          asOf === undefined ? 'The first backup that succeeds makes one.' : 'There was none at that time.',
      }}
      columns={[
        {
          header: 'Received',
          isName: true,
          width: 225,
          cell: ({ id, createdAt }) => (
            <TextLink
              inherit
              to="/backup/snapshots/$snapshotId"
              params={{ snapshotId: id }}
              search={{ asOf }}
            >
              {formatTime(new Date(createdAt))}
            </TextLink>
          ),
        },
        { header: 'Age', width: 100, cell: ({ createdAt }) => <When at={createdAt} /> },
        ...(hidesDevice ? [] : [device]),
        { header: 'What', cell: contentText },
        { header: 'Size', align: 'right', width: 90, cell: ({ sizeBytes }) => bytes(sizeBytes) },
        {
          header: 'Files',
          align: 'right',
          width: 90,
          cell: ({ fileCount }) => (fileCount === null ? '–' : formatCount(fileCount)),
        },
        { header: 'Added', align: 'right', width: 90, cell: ({ addedBytes }) => bytes(addedBytes) },
        { header: 'Marks', cell: (snapshot) => <SnapshotMarks snapshot={snapshot} /> },
      ]}
    />
  );
}

const bytes = (size: number | null) => (size === null ? '–' : formatBytes(size));

/** Badges for the unusual properties of a snapshot. */
export function SnapshotMarks({ snapshot }: { snapshot: BackupSnapshot }) {
  const { isPartial, legalHold, legalHoldReason, isImmutable, immutableUntil, removedAt } = snapshot;
  return (
    <Group gap={4}>
      {isPartial && <StateBadge tone="warning" label="Partial" title="Some files could not be read." />}
      {legalHold && <StateBadge tone="info" label="Legal hold" title={legalHoldReason ?? undefined} />}
      {isImmutable && (
        <StateBadge
          tone="info"
          label="Immutable"
          title={immutableUntil === null ? undefined : `Until ${formatTime(new Date(immutableUntil))}`}
        />
      )}
      {removedAt !== null && <StateBadge tone="neutral" label="Removed" />}
    </Group>
  );
}

const fieldOf = (asOf: string | undefined): string => (asOf === undefined ? '' : localField(new Date(asOf)));

interface AsOfProps {
  asOf: string | undefined;
  onChange: (asOf: string | undefined) => void;
}

/** Chooses the time whose state of the backup store is shown. */
export const AsOfField = (props: AsOfProps) => <Field key={props.asOf ?? ''} {...props} />;

/** The time counts when it is entered, because each figure of it makes a time of its own. */
function Field({ asOf, onChange }: AsOfProps) {
  const [text, setText] = useState(fieldOf(asOf));
  const enter = () => {
    if (text === fieldOf(asOf)) return;
    onChange(fromLocalField(text)?.toISOString());
  };
  return (
    <Group gap="xs" wrap="nowrap">
      <Text size="sm" component="label" htmlFor="as-of">
        As of
      </Text>
      <TextInput
        id="as-of"
        type="datetime-local"
        step={1}
        w={210}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onBlur={enter}
        onKeyDown={(event) => {
          if (event.key === 'Enter') enter();
        }}
      />
    </Group>
  );
}

/** A notice that the page shows an earlier state. */
export function AsOfNotice({ asOf, onEnd }: { asOf: string; onEnd: () => void }) {
  return (
    <Notice
      tone="info"
      icon={IconHistory}
      title={`The backup store as it was on ${formatTime(new Date(asOf))}`}
    >
      <Group justify="space-between">
        <Text size="sm">
          What came later is left out, and what was removed since is there. Downloads and restores take this
          state.
        </Text>
        <Button size="compact-sm" variant="default" onClick={onEnd}>
          Show it as it is now
        </Button>
      </Group>
    </Notice>
  );
}
