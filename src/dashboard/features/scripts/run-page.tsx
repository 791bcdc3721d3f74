import { Code, Progress, SegmentedControl, Stack, Text } from '@mantine/core';
import { IconPlayerStop, IconRefresh, IconRefreshAlert } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  apiQuery,
  call,
  newIdempotencyKey,
  type ScriptRun,
  type ScriptRunDetails,
  type ScriptRunDevice,
  type ScriptRunOutputGroup,
  useApiChange,
  useList,
  useRefreshOn,
} from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  type Address,
  ButtonLink,
  ConfirmAction,
  DetailsDrawer,
  FactTable,
  formatCount,
  formatCounted,
  formatDuration,
  formatTime,
  FormDialog,
  List,
  Loaded,
  Notice,
  OpenName,
  Panel,
  StateBadge,
  TextLink,
  TwoLines,
  useAddress,
  useForm,
  When,
} from '../../ui/index.ts';
import { targetText, useTargetNames } from '../device-targets/index.ts';
import { DeviceOutput, SharedOutput } from './run-output.tsx';
import { countsText, failedCount, isOpen, lookOf, OUTCOME_NAMES, OUTCOMES, percentOf } from './run-text.ts';
import { LANGUAGE_NAMES } from './scripts-page.tsx';
import { ScriptsFrame } from './scripts-frame.tsx';

const route = getRouteApi('/signed-in/scripts/runs/$runId');
type Search = ReturnType<typeof route.useSearch>;

const REFRESH_MS = 2000;
/** These change with the counts of the run only. */
const PART_READS = ['GET /script-runs/{id}/devices', 'GET /script-runs/{id}/outputs'] as const;
const READS = ['GET /script-runs', 'GET /script-runs/{id}', ...PART_READS] as const;

/** A script run as it stands, by device and by what devices have reported alike. */
export function RunPage() {
  const { runId: id } = route.useParams();
  const run = useQuery({
    ...apiQuery('GET /script-runs/{id}', { params: { id } }),
    refetchInterval: ({ state: { data } }) => (data !== undefined && isOpen(data) ? REFRESH_MS : false),
  });
  return (
    <Loaded query={run} what="Reading the run">
      {(data) => <Run key={id} run={data} />}
    </Loaded>
  );
}

function Run({ run }: { run: ScriptRunDetails }) {
  const address = useAddress(route.useSearch());
  const mayReadDevices = useRefusal('devices:read');
  useRefreshOn(JSON.stringify([run.state, run.counts]), PART_READS);
  const { view } = address.search;
  return (
    <ScriptsFrame
      title={run.scriptName}
      description={
        <>
          Started <When at={run.createdAt} />
          {run.createdByName !== null && ` by ${run.createdByName}`}
        </>
      }
      actions={<Actions run={run} />}
    >
      {run.error !== null && (
        <Notice tone="bad" title="Not all of its commands were added">
          <Text size="sm">{run.error}</Text>
        </Notice>
      )}
      <Standing run={run} />
      {mayReadDevices === undefined ? (
        <>
          <SegmentedControl
            aria-label="How the devices are listed"
            data={[
              { value: '', label: 'By device' },
              { value: 'outputs', label: 'By equal output' },
            ]}
            value={view ?? ''}
            onChange={(value) => address.open(value === 'outputs' ? { view: 'outputs' } : {})}
            style={{ alignSelf: 'start' }}
          />
          {view === 'outputs' ? (
            <Outputs run={run} address={address} />
          ) : (
            <Devices run={run} address={address} />
          )}
        </>
      ) : (
        <Text size="sm">{mayReadDevices}</Text>
      )}
      <Facts run={run} />
    </ScriptsFrame>
  );
}

function Standing({ run }: { run: ScriptRunDetails }) {
  return (
    <Stack gap={6}>
      <Progress
        value={percentOf(run)}
        aria-label="Devices that have ended"
        size="md"
        animated={isOpen(run)}
      />
      <Text size="sm" component="output" aria-live="polite">
        {countsText(run)}
      </Text>
    </Stack>
  );
}

function Facts({ run }: { run: ScriptRunDetails }) {
  const names = useTargetNames(run.target === null ? [] : [run.target]);
  const parameters = Object.entries(run.parameters ?? {});
  return (
    <Panel title="What was run">
      <FactTable
        label="Facts of the run"
        facts={[
          ['State', <StateBadge key="state" {...lookOf(run)} />],
          [
            'Script',
            run.scriptId === null ? (
              'It was deleted since.'
            ) : (
              <TextLink key="script" inherit to="/scripts/$scriptId" params={{ scriptId: run.scriptId }}>
                The script as it is now
              </TextLink>
            ),
          ],
          ['Version', <Code key="version">{run.version.slice(0, 12)}</Code>],
          ['Devices', run.target === null ? undefined : targetText(run.target, names)],
          [
            'Parameters',
            parameters.length === 0
              ? undefined
              : parameters.map(([name, value]) => `${name}=${value}`).join(', '),
          ],
          ['Secrets', run.secretNames.length === 0 ? undefined : run.secretNames.join(', ')],
          [
            'Repeats',
            run.againOf === null ? undefined : (
              <TextLink key="again" inherit to="/scripts/runs/$runId" params={{ runId: run.againOf }}>
                An earlier run
              </TextLink>
            ),
          ],
          [
            'Started by',
            run.scheduleId === null ? undefined : (
              <TextLink key="schedule" inherit to="/scripts/schedules">
                A schedule
              </TextLink>
            ),
          ],
          ['Devices are awaited until', formatTime(new Date(run.expiresAt))],
        ]}
      />
      {run.content !== null && (
        <details>
          <summary>{LANGUAGE_NAMES[run.language]}, as it was run</summary>
          <Code
            block
            tabIndex={0}
            aria-label="The script as it was run"
            mah={320}
            style={{ overflow: 'auto' }}
          >
            {run.content}
          </Code>
        </details>
      )}
    </Panel>
  );
}

function Actions({ run }: { run: ScriptRunDetails }) {
  const mayRun = useRefusal('scripts:execute');
  const [again, setAgain] = useState<'all' | 'failed'>();
  const cancel = useApiChange('POST /script-runs/{id}/cancel', { refreshes: READS });
  const failed = failedCount(run);
  return (
    <>
      <ButtonLink
        variant="default"
        to="/scripts/runs"
        search={run.scriptId === null ? {} : { script: run.scriptId }}
      >
        All runs
      </ButtonLink>
      {isOpen(run) && (
        <ConfirmAction
          variant="default"
          icon={IconPlayerStop}
          refusal={mayRun ?? (run.state === 'cancelling' ? 'It is being cancelled.' : undefined)}
          title={`Cancel ${run.scriptName}`}
          question="Devices that have not begun do not begin. Those that run it are asked to stop; what it has done is done."
          confirm="Cancel the run"
          run={() => cancel.mutateAsync({ params: { id: run.id } })}
        >
          Cancel the run
        </ConfirmAction>
      )}
      <Action
        variant="default"
        icon={IconRefreshAlert}
        refusal={mayRun ?? (failed === 0 ? 'It failed on no device.' : undefined)}
        onClick={() => setAgain('failed')}
      >
        Run on failed
      </Action>
      <Action variant="default" icon={IconRefresh} refusal={mayRun} onClick={() => setAgain('all')}>
        Run again
      </Action>
      {again !== undefined && <AgainDialog run={run} which={again} onClose={() => setAgain(undefined)} />}
    </>
  );
}

/** Asks before a run is repeated, and for its secrets, which are not kept. */
function AgainDialog({
  run,
  which,
  onClose,
}: {
  run: ScriptRunDetails;
  which: 'all' | 'failed';
  onClose: () => void;
}) {
  const open = useNavigate();
  const [key] = useState(newIdempotencyKey);
  const form = useForm<Record<string, string>>(() =>
    Object.fromEntries(run.secretNames.map((name) => [name, ''])),
  );
  const devices = which === 'all' ? run.total : failedCount(run);
  const submit = async () => {
    const secrets = run.secretNames.length === 0 ? {} : { secrets: form.values };
    const started = await call(
      'POST /script-runs/{id}/run-again',
      { params: { id: run.id }, body: { which, ...secrets } },
      { idempotencyKey: key },
    );
    await open({ to: '/scripts/runs/$runId', params: { runId: started.id } });
  };
  return (
    <FormDialog
      title={`Run ${run.scriptName} again`}
      onClose={onClose}
      submit={submit}
      submitLabel={`Run on ${formatCounted(devices, 'device')}`}
      form={form}
      fields={[
        {
          note: 'what',
          text: (
            <Text size="sm">
              The same version runs with the same parameters, also if the script was changed since. What it
              does, it does once more.
            </Text>
          ),
        },
        ...run.secretNames.map((name) => ({
          name,
          fault: 'secrets',
          kind: 'password' as const,
          label: `Secret ${name}`,
          required: true,
        })),
      ]}
    />
  );
}

interface PartProps {
  run: ScriptRun;
  address: Address<Search>;
}

function Devices({ run, address }: PartProps) {
  const { outcome, alike, page = 1 } = address.search;
  const [chosen, setChosen] = useState<string>();
  const devices = useList('GET /script-runs/{id}/devices', {
    params: { id: run.id },
    query: { outcome, outputHash: alike, page: String(page) },
  });
  const rows = devices.data?.data ?? [];
  const only = run.total === 1 ? rows[0] : undefined;
  const shown = rows.find(({ deviceId }) => deviceId === chosen);
  return (
    <>
      <List
        query={devices}
        noun="devices"
        label="What became of it on each device"
        keyOf={({ deviceId }) => deviceId}
        address={address}
        facets={[
          {
            kind: 'choice',
            name: 'outcome',
            label: 'Outcome',
            any: 'Any outcome',
            options: OUTCOME_NAMES.map((value) => ({ value, label: OUTCOMES[value].label })),
          },
          { kind: 'hidden', name: 'alike' },
        ]}
        empty={{ title: 'No devices', text: 'The devices of this run were removed since.' }}
        columns={[
          {
            header: 'Device',
            isName: true,
            cell: ({ deviceId, deviceName, commandId }) => (
              <TextLink
                inherit
                to="/devices/$deviceId"
                params={{ deviceId }}
                search={commandId === null ? {} : { tab: 'commands', command: commandId }}
              >
                {deviceName}
              </TextLink>
            ),
          },
          { header: 'Outcome', width: 150, cell: (device) => <StateBadge {...OUTCOMES[device.outcome]} /> },
          { header: 'Why', cell: whyText },
          {
            header: 'Exit code',
            align: 'right',
            width: 110,
            cell: ({ exitCode }) => (exitCode === null ? '–' : String(exitCode)),
          },
          {
            header: 'Took',
            align: 'right',
            width: 100,
            cell: ({ durationMs }) => (durationMs === null ? '–' : formatDuration(durationMs)),
          },
          {
            header: 'Output',
            width: 90,
            cell: (device) =>
              device.commandId === null ? null : (
                <Action
                  inRow
                  aria-label={`Show the output of ${device.deviceName}`}
                  onClick={() => setChosen(device.deviceId)}
                >
                  Output
                </Action>
              ),
          },
        ]}
      />
      {only !== undefined && <OutputOf device={only} />}
      <DetailsDrawer
        opened={shown}
        onClose={() => setChosen(undefined)}
        size="xl"
        title={shown?.deviceName ?? ''}
      >
        {(device) => <OutputOf device={device} />}
      </DetailsDrawer>
    </>
  );
}

const OutputOf = ({ device: { commandId, deviceName, status } }: { device: ScriptRunDevice }) =>
  commandId === null ? null : (
    <DeviceOutput key={commandId} commandId={commandId} name={deviceName} state={status ?? 'queued'} />
  );

const REASONS: Readonly<Record<string, string>> = {
  device_busy: 'The device is busy.',
  not_sent: 'It was cancelled before it was sent.',
  superseded: 'The next run of its schedule has taken its place.',
  no_receipt: 'It is not known whether the device has begun.',
  no_result: 'The device has not reported a result in time.',
};

function whyText({ refusal, reason, outcome, exitCode }: ScriptRunDevice): string {
  if (refusal !== null) return refusal.message;
  if (reason !== null) return REASONS[reason] ?? reason;
  if (outcome === 'expired') return 'The device was away for too long.';
  return outcome === 'failed' && exitCode === null ? 'It ended without an exit code.' : '–';
}

function Outputs({ run, address }: PartProps) {
  const { page = 1 } = address.search;
  const [opened, setOpened] = useState<ScriptRunOutputGroup>();
  const outputs = useList('GET /script-runs/{id}/outputs', {
    params: { id: run.id },
    query: { page: String(page) },
  });
  return (
    <>
      <List
        query={outputs}
        noun="outputs"
        label="Devices by equal output"
        keyOf={({ outputHash }) => outputHash}
        address={address}
        empty={{ title: 'No output yet', text: 'Outputs are compared when devices have ended.' }}
        columns={[
          {
            header: 'Output',
            isName: true,
            cell: (group) => (
              <TwoLines below={`${formatCount(group.size)} characters`}>
                <OpenName onOpen={() => setOpened(group)}>
                  {group.preview.trim() === '' ? 'It printed nothing' : firstLine(group.preview)}
                </OpenName>
              </TwoLines>
            ),
          },
          {
            header: 'Exit code',
            width: 130,
            cell: ({ exitCode }) => (
              <StateBadge
                tone={exitCode === 0 ? 'good' : 'bad'}
                label={exitCode === null ? 'None' : String(exitCode)}
              />
            ),
          },
          {
            header: 'Devices',
            cell: ({ devices, deviceNames, outputHash }) => (
              <TwoLines below={namesText(devices, deviceNames)}>
                <TextLink
                  inherit
                  to="/scripts/runs/$runId"
                  params={{ runId: run.id }}
                  search={{ alike: outputHash }}
                >
                  {formatCounted(devices, 'device')}
                </TextLink>
              </TwoLines>
            ),
          },
        ]}
      />
      <DetailsDrawer
        opened={opened}
        onClose={() => setOpened(undefined)}
        size="xl"
        title={opened === undefined ? '' : formatCounted(opened.devices, 'device')}
      >
        {({ outputHash, devices }) => (
          <SharedOutput runId={run.id} outputHash={outputHash} name={formatCounted(devices, 'device')} />
        )}
      </DetailsDrawer>
    </>
  );
}

const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';

const namesText = (devices: number, names: readonly string[]): string =>
  devices > names.length
    ? `${names.join(', ')} and ${formatCount(devices - names.length)} more`
    : names.join(', ');
