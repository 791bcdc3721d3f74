import { Group, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus, IconAlertTriangle } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange, type AgentRolloutDetails, type AgentRollout } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Forbidden,
  formatWord,
  Loaded,
  PagedTable,
  When,
  FormDialog,
  ConfirmAction,
  formatCount,
  formatTime,
  StateBadge,
  type Tone,
  TextLink,
  DetailsDrawer,
  List,
  useForm,
  RunAction,
  Notice,
} from '../../ui/index.ts';

const REFRESH_MS = 15_000;
const SYSTEM = { scopes: ['system'] } as const;

/** New versions on their way through the fleet. */
export function RolloutsTab(props: {
  page: number;
  onPage: (page: number) => void;
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const refusal = useRefusal(SYSTEM);
  return refusal === undefined ? <Rollouts {...props} /> : <Forbidden reason={refusal} isGrantable={false} />;
}

function Rollouts({
  page,
  onPage,
  opened,
  onOpen,
}: {
  page: number;
  onPage: (page: number) => void;
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const [isMaking, making] = useDisclosure(false);
  const rollouts = useQuery({
    ...apiQuery('GET /agent-rollouts', { query: { page: String(page) } }),
    // Do not ask again after the second factor was declined.
    refetchInterval: ({ state }) => (state.status === 'success' ? REFRESH_MS : false),
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
  });
  const newRollout = (
    <Action icon={IconPlus} onClick={making.open}>
      New rollout
    </Action>
  );
  return (
    <Stack gap="sm">
      <Group justify="flex-end">{newRollout}</Group>
      <List
        query={rollouts}
        noun="rollouts"
        keyOf={({ id }) => id}
        onPage={onPage}
        empty={{
          title: 'No rollouts',
          text: 'A rollout brings a version to the devices in waves, and halts by itself when devices fail.',
        }}
        columns={[
          {
            header: 'Version',
            isName: true,
            cell: ({ component, version }) => `${formatWord(component)} ${version}`,
          },
          { header: 'State', cell: ({ state }) => <RolloutState state={state} /> },
          {
            header: 'Wave',
            cell: ({ wave, waves }) =>
              `${wave + 1} of ${waves.length} (${waves[wave]?.reachedPercent ?? 0} % of the fleet)`,
          },
          { header: 'Started', cell: ({ createdAt }) => <When at={createdAt} /> },
          { header: 'Ended', cell: ({ endedAt }) => <When at={endedAt} never="Not yet" /> },
          {
            header: 'Details',
            cell: ({ id }) => (
              <Action inRow onClick={() => onOpen(id)}>
                Details
              </Action>
            ),
          },
        ]}
      />
      <DetailsDrawer opened={opened} onClose={() => onOpen(undefined)} size="xl" title="Rollout">
        {(opened) => <RolloutDetails key={opened} id={opened} />}
      </DetailsDrawer>
      {isMaking && <NewRolloutDialog onClose={making.close} onMade={onOpen} />}
    </Stack>
  );
}

const TONES: Record<AgentRollout['state'], Tone> = {
  running: 'busy',
  paused: 'warning',
  halted: 'bad',
  aborted: 'neutral',
  completed: 'good',
};

function RolloutState({ state }: { state: AgentRollout['state'] }) {
  return <StateBadge tone={TONES[state]} label={formatWord(state)} />;
}

type Wave = AgentRolloutDetails['waves'][number];
const DETAILS_REFRESH_MS = 10_000;
const REFRESHES = ['GET /agent-rollouts', 'GET /agent-rollouts/{id}'] as const;

/** The waves of a rollout with their counts, why it halted, and what comes next. */
function RolloutDetails({ id }: { id: string }) {
  const query = useQuery({
    ...apiQuery('GET /agent-rollouts/{id}', { params: { id } }),
    // Do not ask again after the second factor was declined.
    refetchInterval: ({ state }) => (state.status === 'success' ? DETAILS_REFRESH_MS : false),
    refetchOnWindowFocus: false,
  });
  return (
    <Loaded query={query} what="Reading the rollout">
      {(rollout) => (
        <Stack gap="sm">
          <Group justify="space-between">
            <Group gap="xs">
              <Title order={2} size="h4">
                {formatWord(rollout.component)} {rollout.version}
              </Title>
              <RolloutState state={rollout.state} />
            </Group>
            <Controls rollout={rollout} />
          </Group>
          <Text size="sm">{rollout.next.message}</Text>
          <PagedTable
            label="Waves"
            rows={rollout.waves.map((wave, place) => ({ ...wave, place }))}
            keyOf={({ place }) => String(place)}
            columns={[
              { header: 'Wave', isName: true, cell: ({ place }) => place + 1 },
              { header: 'Reaches', cell: ({ reachedPercent }) => `${reachedPercent} %` },
              {
                header: 'State',
                cell: ({ state }) => (
                  <StateBadge tone={state === 'open' ? 'busy' : 'neutral'} label={formatWord(state)} />
                ),
              },
              { header: 'Devices', align: 'right', cell: ({ devices }) => formatCount(devices) },
              { header: 'Healthy', align: 'right', cell: ({ counts }) => formatCount(counts.healthy) },
              {
                header: 'Failed',
                align: 'right',
                cell: ({ counts }) => formatCount(counts.failed + counts.rolledBack),
              },
              { header: 'Silent', align: 'right', cell: ({ counts }) => formatCount(counts.silent) },
              { header: 'Under way', align: 'right', cell: ({ counts }) => formatCount(underWay(counts)) },
              { header: 'Why others wait', cell: ({ counts }) => waitingText(counts) },
            ]}
          />
          {rollout.outside > 0 && (
            <Text size="sm">{formatCount(rollout.outside)} devices are reached by no wave.</Text>
          )}
          <Halts halts={rollout.halts} />
        </Stack>
      )}
    </Loaded>
  );
}

const underWay = ({ due, offered, downloading, verifying, installing, restarting, trial }: Wave['counts']) =>
  due + offered + downloading + verifying + installing + restarting + trial;

function waitingText({ waiting, upToDate }: Wave['counts']): string {
  const reasons = Object.entries(waiting)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${formatWord(reason)} (${formatCount(count)})`);
  if (upToDate > 0) reasons.push(`Has it already (${formatCount(upToDate)})`);
  return reasons.length === 0 ? '–' : reasons.join(', ');
}

function Controls({ rollout: { id, state } }: { rollout: AgentRolloutDetails }) {
  const pause = useApiChange('POST /agent-rollouts/{id}/pause', { refreshes: REFRESHES });
  const resume = useApiChange('POST /agent-rollouts/{id}/resume', { refreshes: REFRESHES });
  const abort = useApiChange('POST /agent-rollouts/{id}/abort', { refreshes: REFRESHES });
  if (state === 'aborted' || state === 'completed') return null;
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {state === 'running' ? (
          <RunAction variant="default" run={() => pause.mutateAsync({ params: { id } })}>
            Pause
          </RunAction>
        ) : (
          <RunAction variant="default" run={() => resume.mutateAsync({ params: { id } })}>
            Resume
          </RunAction>
        )}
        <ConfirmAction
          variant="default"
          title="Abort the rollout"
          question="No other device gets the version by it, and it cannot be resumed. Devices that have the version keep it."
          confirm="Abort"
          run={() => abort.mutateAsync({ params: { id } })}
        >
          Abort
        </ConfirmAction>
      </Group>
    </Stack>
  );
}

function Halts({ halts }: { halts: AgentRolloutDetails['halts'] }) {
  return halts.map((halt) => (
    <Notice
      key={halt.haltedAt}
      tone={halt.endedAt === null ? 'bad' : 'neutral'}
      icon={IconAlertTriangle}
      title={`${halt.endedAt === null ? 'Halted' : 'Was halted'} ${formatTime(new Date(halt.haltedAt))}`}
    >
      <Text size="sm">{halt.message}</Text>
      <Group gap="xs">
        {halt.devices.map(({ deviceId, name }) => (
          <TextLink
            key={deviceId}
            size="sm"
            underline="always"
            c="var(--mantine-color-text)"
            to="/devices/$deviceId"
            params={{ deviceId }}
            search={{ tab: 'upgrades' }}
          >
            {name}
          </TextLink>
        ))}
        {halt.deviceCount > halt.devices.length && (
          <Text size="sm">and {formatCount(halt.deviceCount - halt.devices.length)} more</Text>
        )}
      </Group>
    </Notice>
  ));
}

const SOAK_MINUTES = 60;

/** Starts a rollout. Without own waves, the server takes its usual ones. */
interface NewRollout {
  component: 'agent' | 'watchdog';
  version: string | null;
  /** In percent, one after another. */
  waves: string;
  soakMinutes: number;
  failedPercent: number | null;
}

function NewRolloutDialog({ onClose, onMade }: { onClose: () => void; onMade: (id: string) => void }) {
  const form = useForm<NewRollout>({
    component: 'agent',
    version: null,
    waves: '',
    soakMinutes: SOAK_MINUTES,
    failedPercent: null,
  });
  const { component, version, soakMinutes, failedPercent } = form.values;
  const shares = form.values.waves.split(/[\s,]+/).filter((share) => share !== '');
  const pinnable = useQuery(apiQuery('GET /agent-versions/pinnable'));
  const start = useApiChange('POST /agent-rollouts', { refreshes: ['GET /agent-rollouts'] });
  const submit = async () => {
    const waves = shares.map((share) => ({ percent: Number(share), soakMinutes }));
    const { id } = await start.mutateAsync({
      body: {
        component,
        version: version ?? '',
        ...(waves.length === 0 ? {} : { waves }),
        ...(failedPercent === null ? {} : { haltWhen: { failedPercent } }),
      },
    });
    onMade(id);
  };
  return (
    <FormDialog
      title="New rollout"
      onClose={onClose}
      submit={submit}
      submitLabel="Start the rollout"
      form={form}
      fields={[
        {
          name: 'component',
          kind: 'choice',
          label: 'Component',
          options: ['agent', 'watchdog'],
          resets: { version: null },
        },
        {
          name: 'version',
          kind: 'choice',
          label: 'Version',
          required: true,
          isSearchable: true,
          options: (pinnable.data?.components[component].versions ?? []).map((value) => ({
            value,
            label: value,
          })),
          empty: null,
          refusal: pinnable.error?.message,
        },
        {
          name: 'waves',
          label: 'Shares of the waves, in percent',
          description: 'Such as 1, 4, 15, 30, 50: each adds its share of the fleet. Empty: the usual waves.',
        },
        shares.length > 0 && {
          name: 'soakMinutes',
          kind: 'number',
          label: 'Minutes that each wave is observed',
          required: true,
          min: 1,
        },
        {
          name: 'failedPercent',
          fault: 'haltWhen.failedPercent',
          kind: 'number',
          label: 'Halt when so many percent fail',
          description: 'Of the devices that have finished, and at least two. Empty: as usual.',
          min: 1,
          max: 100,
          empty: null,
        },
      ]}
    />
  );
}
