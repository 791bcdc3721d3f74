import { Anchor, Progress, Stack } from '@mantine/core';
import type { JobUpdate } from '../../../../protocol/index.ts';
import type { VmRestore } from '../../../api/index.ts';
import { Action, PagedTable, StateBadge, When, type Column } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { BUSY, KIND_NAMES, networkText, stateOf } from './vm-texts.ts';

/** Machines of snapshots, as they are now. */
export function VmTable({
  label,
  restores,
  live,
  page,
  onPage,
  onOpen,
  isOfBoots = false,
}: {
  label: string;
  restores: readonly VmRestore[];
  live: ReadonlyMap<string, JobUpdate>;
  page: { page: number; limit: number; total: number };
  onPage: (page: number) => void;
  onOpen: (id: string) => void;
  isOfBoots?: boolean;
}) {
  const kind: Column<VmRestore> = { header: 'Kind', cell: (restore) => KIND_NAMES[restore.kind] };
  const reached: Column<VmRestore> = { header: 'Reached at', cell: reachedText };
  return (
    <PagedTable
      label={label}
      rows={restores}
      keyOf={({ id }) => id}
      page={page}
      onPage={onPage}
      columns={[
        {
          header: 'Machine',
          isName: true,
          cell: ({ id, vmName }) => (
            <Anchor
              component="button"
              inherit
              ta="left"
              style={{ overflowWrap: 'anywhere' }}
              onClick={() => onOpen(id)}
            >
              {vmName}
            </Anchor>
          ),
        },
        ...(isOfBoots ? [] : [kind]),
        { header: 'Host', cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
        {
          header: 'State',
          width: 190,
          cell: (restore) => <State restore={restore} job={live.get(restore.id)} />,
        },
        ...(isOfBoots ? [reached] : []),
        { header: 'Cause', cell: ({ error }) => error?.message ?? '–' },
        { header: 'Asked for', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
        {
          header: 'Details',
          width: 80,
          cell: ({ id }) => (
            <Action size="compact-xs" variant="subtle" onClick={() => onOpen(id)}>
              Details
            </Action>
          ),
        },
      ]}
    />
  );
}

function State({ restore, job }: { restore: VmRestore; job: JobUpdate | undefined }) {
  const percent = job?.percent ?? restore.progress?.percent;
  return (
    <Stack gap={3} align="flex-start">
      <StateBadge {...stateOf(restore)} />
      {BUSY.includes(restore.status) && restore.status !== 'pending' && (
        <Progress
          w="100%"
          size="xs"
          value={percent ?? 100}
          animated={percent == null}
          aria-label={`Progress of ${restore.vmName}`}
        />
      )}
    </Stack>
  );
}

function reachedText(restore: VmRestore): string {
  const { forwards } = restore;
  return forwards.length === 0
    ? networkText(restore)
    : forwards.map(({ hostPort, guestPort }) => `127.0.0.1:${hostPort} (port ${guestPort})`).join(', ');
}
