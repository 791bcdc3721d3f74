import { Anchor, Code, Group, Stack, Text, TextInput } from '@mantine/core';
import { useHotkeys } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useRef, useState } from 'react';
import {
  apiQuery,
  type Device,
  type MachineProcess,
  type ProcessEnd,
  useApiChange,
} from '../../api/index.ts';
import {
  ConfirmAction,
  DetailsDrawer,
  Empty,
  FactTable,
  formatBytes,
  formatCount,
  formatWord,
  Notice,
  When,
} from '../../ui/index.ts';
import { type DataColumn, DataTable } from '../../ui/data-table.tsx';
import { ON_DEMAND, ReadLine } from './live-read.tsx';
import styles from './processes-tab.module.css';
import { useDeviceRefusals } from './use-device.ts';

/** The name can be that of another process with the same number by the next reading. */
const keyOf = ({ pid, startedAt }: MachineProcess): string => `${pid} ${startedAt ?? ''}`;

const textOf = ({ pid, name, commandLine, user }: MachineProcess): string =>
  [pid, name, commandLine, user].join(' ').toLowerCase();

const columnsFor = (open: (process: MachineProcess) => void): DataColumn<MachineProcess>[] => [
  {
    id: 'name',
    header: 'Name',
    width: 300,
    value: ({ name }) => name,
    cell: (process) => (
      <span title={process.commandLine}>
        <Anchor component="button" type="button" tabIndex={-1} inherit onClick={() => open(process)}>
          {process.name || '(no name)'}
        </Anchor>{' '}
        <span className={styles['command']}>{process.commandLine}</span>
      </span>
    ),
  },
  { id: 'pid', header: 'PID', width: 80, align: 'right', value: ({ pid }) => pid, cell: ({ pid }) => pid },
  { id: 'user', header: 'User', width: 150, value: ({ user }) => user, cell: ({ user }) => user },
  {
    id: 'cpu',
    header: 'CPU',
    width: 80,
    align: 'right',
    value: ({ cpuPercent }) => cpuPercent,
    cell: ({ cpuPercent }) => (cpuPercent === undefined ? '' : `${cpuPercent.toFixed(1)} %`),
  },
  {
    id: 'memory',
    header: 'Memory',
    width: 100,
    align: 'right',
    value: ({ memoryBytes }) => memoryBytes,
    cell: ({ memoryBytes }) => (memoryBytes === undefined ? '' : formatBytes(memoryBytes)),
  },
  {
    id: 'started',
    header: 'Started',
    width: 130,
    value: ({ startedAt }) => startedAt,
    cell: ({ startedAt }) => <When at={startedAt} never="Not known" />,
  },
  {
    id: 'state',
    header: 'State',
    width: 90,
    value: ({ state }) => state,
    cell: ({ state }) => (state === undefined ? '' : formatWord(state)),
  },
];

/** The processes of this device, read from it while a person waits. */
export function ProcessesTab({ device }: { device: Device }) {
  const { live } = useDeviceRefusals(device);
  const refusal = live('processes.list');
  const query = useQuery({
    ...apiQuery('GET /system-tools/devices/{deviceId}/processes', { params: { deviceId: device.id } }),
    ...ON_DEMAND,
    enabled: refusal === undefined,
  });
  const [part, setPart] = useState('');
  const [sort, setSort] = useState({ column: 'cpu', descending: true });
  const [opened, setOpened] = useState<MachineProcess>();
  const [ended, setEnded] = useState<ProcessEnd>();
  const field = useRef<HTMLInputElement>(null);
  useHotkeys([['/', () => field.current?.focus()]]);
  const columns = useMemo(() => columnsFor(setOpened), []);
  const { data } = query;
  const wanted = part.trim().toLowerCase();
  const rows = useMemo(
    () => (data?.data ?? []).filter((process) => wanted === '' || textOf(process).includes(wanted)),
    [data, wanted],
  );
  if (data === undefined && refusal !== undefined) {
    return <Empty title="The processes cannot be read now">{refusal}</Empty>;
  }
  const listed = data?.data.length ?? 0;
  const total = data?.meta.total ?? 0;
  return (
    <Stack gap="sm">
      {ended !== undefined && <EndNotice ended={ended} onClose={() => setEnded(undefined)} />}
      <Group gap="sm" role="search" aria-label="Narrow the processes">
        <TextInput
          ref={field}
          w={260}
          placeholder="Name, command, user or PID"
          aria-label="Filter processes"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={part}
          onChange={(event) => setPart(event.currentTarget.value)}
        />
        <ReadLine query={query} readAt={data?.meta.readAt} refusal={refusal}>
          {`: ${formatCount(rows.length)} of ${formatCount(total)} processes`}
          {total > listed && `, of which the ${formatCount(listed)} that use the most are listed`}
        </ReadLine>
      </Group>
      {data !== undefined &&
        (rows.length === 0 ? (
          <Empty title="No process matches">
            The filter looks for a part of the name, the command, the user or the number.
          </Empty>
        ) : (
          <div className={styles['table']}>
            <DataTable
              label="Processes"
              rows={rows}
              columns={columns}
              keyOf={keyOf}
              sort={sort}
              onSort={setSort}
              onOpen={setOpened}
              takesKeys
            />
          </div>
        ))}
      <DetailsDrawer opened={opened} onClose={() => setOpened(undefined)} title={opened?.name ?? ''}>
        {(process) => (
          <ProcessDetails
            device={device}
            process={process}
            onEnded={(answer) => {
              setEnded(answer);
              setOpened(undefined);
              void query.refetch();
            }}
          />
        )}
      </DetailsDrawer>
    </Stack>
  );
}

function EndNotice({
  ended: { outcome, name, pid, graceSeconds },
  onClose,
}: {
  ended: ProcessEnd;
  onClose: () => void;
}) {
  const named = `${name} (${pid})`;
  switch (outcome) {
    case 'ended':
      return <Notice tone="good" role="status" onClose={onClose} title={`${named} has ended`} />;
    case 'killed':
      return (
        <Notice tone="good" role="status" onClose={onClose} title={`${named} was ended by force`}>
          {graceSeconds === 0
            ? 'The system cannot ask this process to end.'
            : `It had not ended within ${graceSeconds} seconds after it was asked to.`}
        </Notice>
      );
    case 'still_running':
      return (
        <Notice tone="warning" role="status" onClose={onClose} title={`${named} is still running`}>
          The system was told to end it by force and has not done so yet. A process that waits for a disk ends
          when the disk answers.
        </Notice>
      );
    default:
      return outcome satisfies never;
  }
}

function ProcessDetails({
  device,
  process,
  onEnded,
}: {
  device: Device;
  process: MachineProcess;
  onEnded: (ended: ProcessEnd) => void;
}) {
  const refusals = useDeviceRefusals(device);
  const end = useApiChange('POST /system-tools/devices/{deviceId}/processes/{pid}/end');
  const { pid, parentPid, name, commandLine, user, cpuPercent, memoryBytes, startedAt, state } = process;
  return (
    <Stack gap="sm">
      <FactTable
        label="Process"
        facts={[
          ['PID', pid],
          ['Parent', parentPid],
          ['User', user],
          ['CPU', cpuPercent === undefined ? undefined : `${cpuPercent.toFixed(1)} %`],
          ['Memory', memoryBytes === undefined ? undefined : formatBytes(memoryBytes)],
          ['Started', startedAt === undefined ? undefined : <When at={startedAt} />],
          ['State', state === undefined ? undefined : formatWord(state)],
        ]}
      />
      {commandLine !== undefined && (
        <Code
          block
          tabIndex={0}
          aria-label="Command"
          style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}
        >
          {commandLine}
        </Code>
      )}
      <Group>
        <ConfirmAction
          color="red"
          variant="light"
          refusal={refusals.act('processes.end') ?? refusalOf(process)}
          title={`End ${name} (${pid})`}
          confirm="End process"
          question={
            <Text size="sm">
              The process is asked to end. If it has not ended after five seconds, it is ended by force, and
              loses what it has not saved. This cannot be undone.
            </Text>
          }
          run={async () => {
            const params = { deviceId: device.id, pid: String(pid) };
            onEnded(await end.mutateAsync({ params, body: { startedAt: startedAt ?? '' } }));
          }}
        >
          End process
        </ConfirmAction>
      </Group>
    </Stack>
  );
}

function refusalOf({ isProtected, startedAt, state }: MachineProcess): string | undefined {
  if (isProtected === true) return 'The agent or the system needs this process.';
  if (state === 'zombie') return 'It has ended already. Its parent has not collected it.';
  return startedAt === undefined
    ? 'The device does not say when it started, so it could be mistaken for another one.'
    : undefined;
}
