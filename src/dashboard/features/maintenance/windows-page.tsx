import { Group } from '@mantine/core';
import {
  IconCalendarTime,
  IconPencil,
  IconPlayerStop,
  IconPlus,
  IconTool,
  IconTrash,
} from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type MaintenanceWindow, useApiChange, useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  formatTime,
  formatUntil,
  ListPage,
  StateBadge,
  TwoLines,
  useAddress,
} from '../../ui/index.ts';
import { targetText } from '../device-targets/index.ts';
import { MaintenanceFrame } from './maintenance-frame.tsx';
import { WINDOW_READS, WindowDialog } from './window-dialog.tsx';
import { quietText, scheduleText } from './window-form.ts';

const route = getRouteApi('/signed-in/maintenance');
/** Windows begin and end by themselves. */
const REFRESH_MS = 15_000;

/** Times in which work on devices is planned. */
export function WindowsPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('devices:write');
  const [open, setOpen] = useState<MaintenanceWindow | 'new'>();
  const windows = useList(
    'GET /maintenance-windows',
    { query: { orgId, page: String(address.search.page ?? 1) } },
    REFRESH_MS,
  );
  const plan = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => setOpen('new')}>
      Plan maintenance
    </Action>
  );
  return (
    <ListPage
      frame={MaintenanceFrame}
      title="Maintenance windows"
      description="Times in which work on devices is planned: nobody is alerted of their outages, and agents are not upgraded."
      actions={plan}
      query={windows}
      noun="maintenance windows"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No maintenance is planned',
        text: 'Plan a window before the next patch night, and nobody is woken by devices that restart.',
        action: plan,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, ...window }) => <TwoLines below={scheduleText(window)}>{name}</TwoLines>,
        },
        { header: 'State', width: 150, cell: (window) => <WindowState window={window} /> },
        {
          header: 'Devices of',
          cell: ({ orgId: owner, target }) => (
            <TwoLines below={targetText(target)}>
              {owner === null ? 'All organizations' : names.organization(owner)}
            </TwoLines>
          ),
        },
        { header: 'Keeps back', width: 150, cell: ({ suppress }) => quietText(suppress) },
        {
          header: 'Next',
          width: 190,
          cell: ({ next }) => (next === null ? '–' : formatUntil(new Date(next.startsAt), new Date())),
        },
        {
          header: 'Actions',
          width: 150,
          cell: (window) => <Actions window={window} onChange={() => setOpen(window)} />,
        },
      ]}
    >
      {open !== undefined && (
        <WindowDialog {...(open === 'new' ? {} : { window: open })} onClose={() => setOpen(undefined)} />
      )}
    </ListPage>
  );
}

function WindowState({ window: { status, current } }: { window: MaintenanceWindow }) {
  if (current !== null) {
    return (
      <StateBadge
        tone="warning"
        icon={IconTool}
        label="In progress"
        title={`It ends at ${formatTime(new Date(current.endsAt))}.`}
      />
    );
  }
  return status === 'scheduled' ? (
    <StateBadge tone="info" icon={IconCalendarTime} label="Scheduled" />
  ) : (
    <StateBadge tone="neutral" label="Over" />
  );
}

function Actions({ window, onChange }: { window: MaintenanceWindow; onChange: () => void }) {
  const refusal = useRefusal('devices:write');
  const end = useApiChange('POST /maintenance-windows/{id}/end', { refreshes: WINDOW_READS });
  const remove = useApiChange('DELETE /maintenance-windows/{id}', { refreshes: WINDOW_READS });
  const params = { id: window.id };
  return (
    <Group gap={4} wrap="nowrap">
      <Action inRow icon={IconPencil} refusal={refusal} onClick={onChange}>
        Change
      </Action>
      {window.current !== null && (
        <ConfirmAction
          inRow
          icon={IconPlayerStop}
          refusal={refusal}
          title={`End ${window.name} now`}
          question="Devices that are still offline in 10 minutes raise alerts. Later occurrences happen as planned."
          confirm="End now"
          run={() => end.mutateAsync({ params })}
        >
          End now
        </ConfirmAction>
      )}
      <ConfirmAction
        inRow
        icon={IconTrash}
        refusal={refusal}
        title={`Delete ${window.name}`}
        question="It does not happen again, and an occurrence in progress ends at once."
        confirm="Delete"
        run={() => remove.mutateAsync({ params })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}
