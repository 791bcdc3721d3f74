import { Group } from '@mantine/core';
import { IconCalendarTime, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type ScriptSchedule, useApiChange, useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  ListPage,
  StateBadge,
  TextLink,
  TwoLines,
  useAddress,
  When,
} from '../../ui/index.ts';
import { targetText, useTargetNames } from '../device-targets/index.ts';
import { SCHEDULE_READS, ScheduleDialog, slotText } from './schedule-dialog.tsx';
import { timesText } from './schedule-form.ts';
import { ScriptsFrame } from './scripts-frame.tsx';

const route = getRouteApi('/signed-in/scripts/schedules');
/** Schedules run by themselves. */
const REFRESH_MS = 30_000;

/** Scripts that run by themselves. */
export function SchedulesPage() {
  const address = useAddress(route.useSearch());
  const { dialog, script, page = 1 } = address.search;
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('scripts:execute');
  const [opened, setOpened] = useState<ScriptSchedule>();
  const schedules = useList(
    'GET /script-schedules',
    { query: { orgId, scriptId: script, page: String(page) } },
    REFRESH_MS,
  );
  const targetNames = useTargetNames((schedules.data?.data ?? []).map(({ target }) => target));
  const add = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => address.put({ dialog: 'new' })}>
      New schedule
    </Action>
  );
  return (
    <ListPage
      frame={ScriptsFrame}
      title="Script schedules"
      description="Scripts that run by themselves, by the rights of the person who changed the schedule last."
      actions={add}
      query={schedules}
      noun="script schedules"
      keyOf={({ id }) => id}
      address={address}
      facets={[{ kind: 'hidden', name: 'script' }]}
      empty={{
        title: 'No script runs by itself',
        text: 'A schedule runs a script at set times. Devices that are away catch up when they return.',
        action: add,
      }}
      noneFound={{
        title: 'This script runs by no schedule',
        text: 'A schedule runs it at set times. Devices that are away catch up when they return.',
        action: add,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, ...schedule }) => <TwoLines below={timesText(schedule)}>{name}</TwoLines>,
        },
        { header: 'State', width: 150, cell: (schedule) => <ScheduleState schedule={schedule} /> },
        {
          header: 'Script',
          cell: ({ scriptId, scriptName, orgId: owner, target, secrets }) => (
            <TwoLines
              below={`${targetText(target, targetNames)}, ${owner === null ? 'all organizations' : names.organization(owner)}${secretsText(secrets)}`}
            >
              {scriptId === null ? (
                'It was deleted'
              ) : (
                <TextLink inherit to="/scripts/$scriptId" params={{ scriptId }}>
                  {scriptName ?? 'A script of the provider'}
                </TextLink>
              )}
            </TwoLines>
          ),
        },
        {
          header: 'Next',
          width: 230,
          cell: ({ nextRuns, timezone }) =>
            nextRuns.length === 0 ? '–' : nextRuns.map((at) => <div key={at}>{slotText(at, timezone)}</div>),
        },
        {
          header: 'Last',
          width: 170,
          cell: ({ id, lastSlotAt, lastSkip }) => (
            <TwoLines below={lastSkip === null ? '' : SKIPPED[lastSkip]}>
              {lastSlotAt === null ? (
                'Never'
              ) : (
                <>
                  <When at={lastSlotAt} />{' '}
                  <TextLink inherit to="/scripts/runs" search={{ schedule: id }}>
                    Runs
                  </TextLink>
                </>
              )}
            </TwoLines>
          ),
        },
        {
          header: 'Actions',
          width: 150,
          cell: (schedule) => <Actions schedule={schedule} onChange={() => setOpened(schedule)} />,
        },
      ]}
    >
      {dialog === 'new' && refusal === undefined && (
        <ScheduleDialog scriptId={script} onClose={() => address.put({ dialog: undefined })} />
      )}
      {opened !== undefined && <ScheduleDialog schedule={opened} onClose={() => setOpened(undefined)} />}
    </ListPage>
  );
}

const secretsText = (secrets: ScriptSchedule['secrets']) =>
  secrets.length === 0 ? '' : `, with secrets: ${secrets.map(({ name }) => name).join(', ')}`;

const SKIPPED: Record<NonNullable<ScriptSchedule['lastSkip']>, string> = {
  missed: 'It did not run: the servers were away for too long.',
  no_devices: 'It did not run: there were no devices.',
  too_many_devices: 'It did not run: there were too many devices.',
  partner_inactive: 'It did not run: the provider account was not active.',
};

function ScheduleState({ schedule: { enabled, paused } }: { schedule: ScriptSchedule }) {
  if (paused !== null) {
    return (
      <TwoLines below={paused.message}>
        <StateBadge tone="warning" label="Paused" />
      </TwoLines>
    );
  }
  return enabled ? (
    <StateBadge tone="info" icon={IconCalendarTime} label="Scheduled" />
  ) : (
    <StateBadge tone="neutral" label="Disabled" />
  );
}

function Actions({ schedule, onChange }: { schedule: ScriptSchedule; onChange: () => void }) {
  const refusal = useRefusal('scripts:execute');
  const remove = useApiChange('DELETE /script-schedules/{id}', { refreshes: SCHEDULE_READS });
  return (
    <Group gap={4} wrap="nowrap">
      <Action inRow icon={IconPencil} refusal={refusal} onClick={onChange}>
        Change
      </Action>
      <ConfirmAction
        inRow
        icon={IconTrash}
        refusal={refusal}
        title={`Delete ${schedule.name}`}
        question="It does not run any more. What it has begun goes on, and its runs stay in the list."
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id: schedule.id } })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}
