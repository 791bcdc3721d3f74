import { Anchor, Button, Group, Modal, Progress, Select, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconPlayerPlay } from '@tabler/icons-react';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { CommandStatus, type JobUpdate } from '../../../../../protocol/index.ts';
import { apiQuery, type Command, type Device } from '../../../../api/index.ts';
import { isFinal, useLiveJobs } from '../../../../live/index.ts';
import { useMe, useRefusal } from '../../../../session/index.ts';
import {
  Action,
  Empty,
  formatDuration,
  formatWord,
  JobStateBadge,
  Loaded,
  PagedTable,
  When,
  type Column,
} from '../../../../ui/index.ts';
import { RunScriptForm } from '../../dialogs/run-script-form.tsx';
import { useDeviceRefusals } from '../device-refusals.ts';
import { useDeviceSearch } from '../device-search.ts';
import { commandName, endingOf } from './command-name.ts';
import { CommandDrawer } from './command-drawer.tsx';

/** The work that was sent to the device, as it goes on, and the way to send more. */
export function CommandsTab({ device }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const queries = useQueryClient();
  const me = useMe();
  const refusals = useDeviceRefusals(device);
  const mayRun = useRefusal('scripts:execute') ?? refusals.command('script.run');
  const status = CommandStatus.options.find((each) => each === search.status);
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/commands', {
      params: { id: device.id },
      query: { page: String(search.page ?? 1), limit: '25', status },
    }),
    placeholderData: keepPreviousData,
  });
  const jobs = useLiveJobs({ deviceId: device.id });
  const live = new Map(jobs.map((job) => [job.id, job]));
  // Each change of a state is one of the list; progress is shown from the update itself.
  const states = jobs
    .map(({ id, state }) => `${id} ${state}`)
    .sort()
    .join();
  useEffect(() => {
    if (states !== '') void queries.invalidateQueries({ queryKey: ['GET /devices/{id}/commands'] });
  }, [states, queries]);

  return (
    <>
      <Group gap="xs" mb="xs">
        <Action
          leftSection={<IconPlayerPlay size={14} aria-hidden />}
          refusal={mayRun}
          onClick={() => change({ show: 'run' })}
        >
          Run a script
        </Action>
        <Select
          w={170}
          aria-label="State"
          placeholder="Any state"
          clearable
          data={CommandStatus.options.map((value) => ({ value, label: formatWord(value) }))}
          value={status ?? null}
          onChange={(value) => change({ status: value ?? undefined })}
        />
      </Group>
      <Loaded query={query} what="Reading the commands">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={
                status === undefined ? 'Nothing was sent to this device yet' : 'No command in this state'
              }
              action={
                status !== undefined && (
                  <Button variant="default" onClick={() => change({ status: undefined })}>
                    Show all
                  </Button>
                )
              }
            >
              Scripts, restarts, inventories and backups appear here, with their output.
            </Empty>
          ) : (
            <PagedTable
              label="Commands of the device"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={columns({
                live,
                userId: me.user.id,
                open: (id) => change({ page: search.page, command: id }),
              })}
            />
          )
        }
      </Loaded>
      <Modal
        opened={search.show === 'run' && mayRun === undefined}
        onClose={() => change({ show: undefined })}
        title={`Run a script on ${device.displayName ?? device.hostname}`}
        size="lg"
      >
        <RunScriptForm
          deviceIds={[device.id]}
          systems={[device.osType]}
          orgId={device.orgId}
          onClose={() => change({ show: undefined })}
          onStarted={({ commands, refused }) => {
            const [command] = commands;
            const [refusal] = refused;
            if (refusal !== undefined) {
              notifications.show({
                color: 'red',
                title: 'The script was not started',
                message: refusal.message,
              });
            }
            // The dialog closes itself afterwards, with the address as it is then.
            if (command !== undefined) queueMicrotask(() => change({ show: undefined, command: command.id }));
          }}
        />
      </Modal>
      <CommandDrawer
        id={search.command}
        device={device}
        onClose={() => change({ page: search.page, command: undefined })}
      />
    </>
  );
}

const columns = ({
  live,
  userId,
  open,
}: {
  live: ReadonlyMap<string, JobUpdate>;
  userId: string;
  open: (id: string) => void;
}): Column<Command>[] => [
  {
    header: 'Command',
    isName: true,
    cell: ({ id, ...command }) => (
      <Anchor component="button" inherit onClick={() => open(id)}>
        {commandName(command)}
      </Anchor>
    ),
  },
  {
    header: 'State',
    width: 240,
    cell: (command) => {
      const job = live.get(command.id);
      return (
        <Stack gap={3}>
          <JobStateBadge {...endingOf(command, job)} />
          {job !== undefined && !isFinal(job) && (
            <Progress
              size="xs"
              value={job.percent ?? 100}
              animated={job.percent == null}
              aria-label={formatWord(job.phase)}
            />
          )}
        </Stack>
      );
    },
  },
  {
    header: 'Note',
    cell: ({ waitsForDevice, error, reason }) => (
      <Text size="sm" lineClamp={2}>
        {waitsForDevice ? 'Waits for the device to come back' : (error?.message ?? reason ?? '–')}
      </Text>
    ),
  },
  {
    header: 'Sent',
    width: 120,
    cell: ({ createdAt }) => <When at={createdAt} />,
  },
  {
    header: 'By',
    width: 120,
    cell: ({ createdBy }) =>
      createdBy === null ? 'Muster' : createdBy === userId ? 'You' : 'Another person',
  },
  {
    header: 'Took',
    width: 90,
    cell: ({ startedAt, finishedAt }) =>
      startedAt === null || finishedAt === null
        ? '–'
        : formatDuration(Date.parse(finishedAt) - Date.parse(startedAt)),
  },
];
