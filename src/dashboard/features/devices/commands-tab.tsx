import { Stack, Text, Group, Title, Code } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconPlayerPlay } from '@tabler/icons-react';
import { type Command, type Device, useList, useRefreshOn, apiQuery, useApiChange } from '../../api/index.ts';
import { isFinal, useLiveJobs } from '../../live/index.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  Action,
  formatWord,
  Modal,
  List,
  formatTime,
  jobOutcome,
  StateBadge,
  DetailsDrawer,
  OpenName,
  type Work,
  WorkDetails,
  jobState,
  workColumns,
  workOf,
} from '../../ui/index.ts';
import {
  CommandStatus,
  type JobUpdate,
  exitCodeIn,
  type Ending,
  type JobOutput,
  type JobState,
} from '../../../protocol/index.ts';
import { RunScriptForm } from './run-script-form.tsx';
import { useDeviceAddress, Facts, WithDetails } from './tab-parts.tsx';
import { useDeviceRefusals } from './use-device.ts';
import { useCallback, useState } from 'react';
import { z } from 'zod';
import { NOTHING_STREAMED, withOutput, type Streamed } from './streamed-output.ts';
import styles from './tab-parts.module.css';

/** The work that was sent to the device, as it goes on, and the way to send more. */
export function CommandsTab({ device }: { device: Device }) {
  const address = useDeviceAddress();
  const { search, set } = address;
  const me = useMe();
  const refusals = useDeviceRefusals(device);
  const mayRun = useRefusal('scripts:execute') ?? refusals.command('script.run');
  const status = CommandStatus.options.find((each) => each === search.status);
  const query = useList('GET /devices/{id}/commands', {
    params: { id: device.id },
    query: { page: String(search.page ?? 1), limit: '25', status },
  });
  const jobs = useLiveJobs({ deviceId: device.id });
  const live = new Map(jobs.map((job) => [job.id, job]));
  // Each change of a state is one of the list; progress is shown from the update itself.
  useRefreshOn(
    jobs
      .map(({ id, state }) => `${id} ${state}`)
      .sort()
      .join(),
    ['GET /devices/{id}/commands'],
  );

  return (
    <>
      <List
        query={query}
        noun="commands"
        label="Commands of the device"
        keyOf={({ id }) => id}
        address={address}
        facets={[
          {
            kind: 'choice',
            name: 'status',
            label: 'State',
            any: 'Any state',
            options: CommandStatus.options,
            width: 170,
          },
        ]}
        tools={
          <Action icon={IconPlayerPlay} refusal={mayRun} onClick={() => set({ show: 'run' })}>
            Run a script
          </Action>
        }
        empty={{
          title: 'Nothing was sent to this device yet',
          text: 'Scripts, restarts, inventories and backups appear here, with their output.',
        }}
        noneFound={{ title: 'No command in this state' }}
        columns={workColumns({
          workOf: commandWork,
          live,
          nameOf: commandName,
          subject: [
            {
              header: 'Command',
              isName: true,
              cell: (command) => (
                <OpenName onOpen={() => set({ command: command.id })}>{commandName(command)}</OpenName>
              ),
            },
          ],
          columns: [
            {
              header: 'Started by',
              width: 120,
              cell: ({ createdBy }) =>
                createdBy === null ? 'Muster' : createdBy === me.user.id ? 'You' : 'Another person',
            },
          ],
        })}
      />
      <Modal
        opened={search.show === 'run' && mayRun === undefined}
        onClose={() => set({ show: undefined, script: undefined })}
        title={`Run a script on ${device.displayName ?? device.hostname}`}
        size="lg"
      >
        <RunScriptForm
          deviceIds={[device.id]}
          systems={[device.osType]}
          orgId={device.orgId}
          firstScriptId={search.script}
          onClose={() => set({ show: undefined, script: undefined })}
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
            if (command !== undefined) {
              queueMicrotask(() => set({ show: undefined, script: undefined, command: command.id }));
            }
          }}
        />
      </Modal>
      <CommandDrawer id={search.command} device={device} onClose={() => set({ command: undefined })} />
    </>
  );
}

/** A command in the words of all work: as the hub says, where it does, or as the command was read. */
function commandWork(command: Command, job: JobUpdate | undefined): Work {
  const { status, waitsForDevice, expiresAt, error, reason } = command;
  const ending = endingOf(command, isFinal({ state: status }) ? undefined : job);
  const isOpen = !isFinal(ending);
  return {
    ...workOf(command),
    stage: !isOpen ? 'idle' : job === undefined || waitsForDevice ? 'waiting' : 'running',
    state: jobState(ending),
    waits: waitsForDevice
      ? `The device is offline. The command waits for it until ${formatTime(new Date(expiresAt))}.`
      : 'The device was asked to do it.',
    error,
    outcome: reason ?? undefined,
    cancelRequestedAt: command.cancelRequestedAt,
    finishedAt: command.finishedAt,
  };
}

const READS = ['GET /commands/{id}', 'GET /devices/{id}/commands'] as const;

/** One command: how it stands, what it prints, and how it came there. */
function CommandDrawer({
  id,
  device,
  onClose,
}: {
  id: string | undefined;
  device: Device;
  onClose: () => void;
}) {
  return (
    <DetailsDrawer opened={id} onClose={onClose} size="xl" title="Command">
      {(opened) => <CommandDetails key={opened} id={opened} device={device} />}
    </DetailsDrawer>
  );
}

function CommandDetails({ id, device }: { id: string; device: Device }) {
  const refusals = useDeviceRefusals(device);
  const { streamed, onOutput } = useStreamedOutput();
  const cancel = useApiChange('POST /commands/{id}/cancel', { refreshes: READS });
  return (
    <WorkDetails
      id={id}
      name="the command"
      read={(opened) => apiQuery('GET /commands/{id}', { params: { id: opened } })}
      reads={READS}
      onOutput={onOutput}
      workOf={commandWork}
      heading={commandName}
      cancel={() => ({
        refusal: refusals.execute,
        run: () => cancel.mutateAsync({ params: { id } }),
      })}
      facts={({ reason, attempt }) => [
        ['Reason', reason],
        ['Deliveries', String(attempt)],
      ]}
    >
      {(command) => (
        <>
          <CommandOutput command={command} streamed={streamed} />
          <Title order={3} size="h5">
            History
          </Title>
          <Facts
            facts={command.transitions.map(({ to, at, reason }) => {
              const { text } = jobOutcome(endingOf({ status: to, output: command.output }));
              return [formatTime(new Date(at)), reason === null ? text : `${text}: ${reason}`];
            })}
          />
          <WithDetails details={command.payload}>
            {command.payload === null ? 'What was sent is shown to who may send commands.' : 'What was sent'}
          </WithDetails>
        </>
      )}
    </WorkDetails>
  );
}

function useStreamedOutput() {
  const [streamed, setStreamed] = useState(NOTHING_STREAMED);
  const onOutput = useCallback((output: JobOutput) => setStreamed((known) => withOutput(known, output)), []);
  return { streamed, onOutput };
}

const ScriptOutput = z.object({
  exitCode: z.number().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean(),
});

/** The output of a script: live while it runs, and then as the device has reported it. */
function CommandOutput({
  command: { type, status, output },
  streamed,
}: {
  command: { type: string; status: JobState; output: unknown };
  streamed: Streamed;
}) {
  const result = ScriptOutput.safeParse(output);
  if (result.success) {
    const { exitCode, stdout, stderr, truncated } = result.data;
    return (
      <Stack gap={4}>
        <Group gap="xs">
          <StateBadge
            tone={exitCode === 0 ? 'good' : 'bad'}
            label={exitCode === null ? 'Ended by a signal' : `Exit code ${exitCode}`}
          />
          {truncated && <Text size="sm">Only the end of its output was kept.</Text>}
        </Group>
        <Printed title="Output" text={stdout} none="It printed nothing." />
        {stderr !== '' && <Printed title="Errors" text={stderr} none="" />}
      </Stack>
    );
  }
  if (type !== 'script.run') return null;
  if (streamed.rows.length === 0 && isFinal({ state: status })) return null;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        Output so far
      </Title>
      {streamed.isPartial && (
        <Text size="xs">The beginning is missing here. All of it is shown when the script has ended.</Text>
      )}
      <Code block className={styles['printed']} tabIndex={0} role="log" aria-label="Output of the script">
        {streamed.rows.length === 0
          ? 'Nothing yet.'
          : streamed.rows.map(({ stream, text }, place) => (
              // Rows are only added at the end.
              // oxlint-disable-next-line react/no-array-index-key
              <span key={place} className={stream === 'stderr' ? styles['errors'] : undefined}>
                {text}
              </span>
            ))}
      </Code>
    </Stack>
  );
}

function Printed({ title, text, none }: { title: string; text: string; none: string }) {
  return (
    <>
      <Title order={3} size="h5">
        {title}
      </Title>
      {text === '' ? (
        <Text size="sm">{none}</Text>
      ) : (
        <Code block className={styles['printed']} tabIndex={0}>
          {text}
        </Code>
      )}
    </>
  );
}

const NAMES: Record<string, string> = {
  'script.run': 'Run a script',
  'agent.reboot': 'Restart the machine',
  'agent.refresh-inventory': 'Refresh the inventory',
  'agent.set-auto-update': 'Set automatic updates',
};

interface Named {
  type: string;
  scriptName: string | null;
}

/** The description of a command; for an existing script, its name. */
const commandName = ({ type, scriptName }: Named): string =>
  scriptName === null ? (NAMES[type] ?? formatWord(type)) : `Script: ${scriptName}`;

/** How a command stands: as the hub says, if it does, or as the command was read. */
const endingOf = ({ status, output }: Pick<Command, 'status' | 'output'>, job?: Ending): Ending =>
  job ?? { state: status, exitCode: exitCodeIn(output) };
