import { Group, Text } from '@mantine/core';
import {
  IconClock,
  IconPencil,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlus,
  IconTrash,
} from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, useList } from '../../api/index.ts';
import type { ReportSchedule } from '../../api/routes.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  formatCounted,
  formatTime,
  ListPage,
  RunAction,
  StateBadge,
  TwoLines,
  useAddress,
} from '../../ui/index.ts';
import { useOwnerName } from '../owners/index.ts';
import { ReportsFrame } from './reports-frame.tsx';
import { SCHEDULE_READS, ScheduleDialog } from './schedule-dialog.tsx';

const route = getRouteApi('/signed-in/reports/schedules');

/** Reports that are mailed once a month. */
export function SchedulesPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = useScope();
  const ownerName = useOwnerName();
  const refusal = useRefusal('organizations:write');
  const [open, setOpen] = useState<ReportSchedule | 'new'>();
  const schedules = useList('GET /reports/schedules', {
    query: { orgId, page: String(address.search.page ?? 1) },
  });
  const add = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => setOpen('new')}>
      New schedule
    </Action>
  );
  return (
    <ListPage
      frame={ReportsFrame}
      title="Reports by mail"
      description="The main figures of the month before and a link to the report, once a month."
      actions={add}
      query={schedules}
      noun="schedules"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No reports are sent',
        text: 'A schedule mails the report of each month to the people whom you choose.',
        action: add,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, dayOfMonth, time, timezone }) => (
            <TwoLines below={`Day ${dayOfMonth} of the month, ${time}, ${timezone}`}>{name}</TwoLines>
          ),
        },
        { header: 'Reports of', cell: (schedule) => ownerName(schedule) },
        {
          header: 'Recipients',
          cell: ({ userIds, addresses }) => formatCounted(userIds.length + addresses.length, 'recipient'),
        },
        { header: 'State', cell: (schedule) => <ScheduleState schedule={schedule} /> },
        { header: 'Set up by', cell: ({ setUpBy }) => setUpBy?.name ?? '–' },
        {
          header: 'Actions',
          width: 150,
          cell: (schedule) => <Actions schedule={schedule} onChange={() => setOpen(schedule)} />,
        },
      ]}
    >
      {open !== undefined && (
        <ScheduleDialog {...(open === 'new' ? {} : { schedule: open })} onClose={() => setOpen(undefined)} />
      )}
    </ListPage>
  );
}

function ScheduleState({ schedule: { dueAt, pausedBecause } }: { schedule: ReportSchedule }) {
  if (dueAt !== null) {
    return <StateBadge tone="info" icon={IconClock} label={`Next ${formatTime(new Date(dueAt))}`} />;
  }
  return (
    <>
      <StateBadge
        tone={pausedBecause === null ? 'neutral' : 'warning'}
        icon={IconPlayerPause}
        label="Paused"
      />
      {pausedBecause !== null && <Text size="sm">{pausedBecause}</Text>}
    </>
  );
}

function Actions({
  schedule: { id, name, isPaused },
  onChange,
}: {
  schedule: ReportSchedule;
  onChange: () => void;
}) {
  const refusal = useRefusal('organizations:write');
  const change = useApiChange('PATCH /reports/schedules/{id}', { refreshes: SCHEDULE_READS });
  const remove = useApiChange('DELETE /reports/schedules/{id}', { refreshes: SCHEDULE_READS });
  const params = { id };
  return (
    <Group gap={4} wrap="nowrap">
      <Action inRow icon={IconPencil} refusal={refusal} onClick={onChange}>
        Change
      </Action>
      <RunAction
        inRow
        icon={isPaused ? IconPlayerPlay : IconPlayerPause}
        refusal={refusal}
        run={() => change.mutateAsync({ params, body: { isPaused: !isPaused } })}
      >
        {isPaused ? 'Resume' : 'Pause'}
      </RunAction>
      <ConfirmAction
        inRow
        icon={IconTrash}
        refusal={refusal}
        title={`Delete ${name}`}
        question="No more reports are sent by it."
        confirm="Delete"
        run={() => remove.mutateAsync({ params })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}
