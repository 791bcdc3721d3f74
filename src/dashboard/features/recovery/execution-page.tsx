import { Group, Stack, Text, Table, UnstyledButton, Box } from '@mantine/core';
import { IconPlayerStop, IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import {
  apiQuery,
  useApiChange,
  useRefreshOn,
  type RecoveryExecutionDetail,
  type RecoveryReport,
  type RecoveryStep,
  type RecoveryAction,
} from '../../api/index.ts';
import { useLiveJobs } from '../../live/index.ts';
import { useRefusal } from '../../session.ts';
import {
  ConfirmAction,
  formatCount,
  formatDuration,
  Loaded,
  Panel,
  When,
  TextLink,
  useNow,
  Notice,
  WorkStanding,
} from '../../ui/index.ts';
import {
  FactLine,
  RecoveryFrame,
  Reached,
  RecoveryState,
  TYPE_NAMES,
  nameOf,
  RESTORE_NAMES,
} from './recovery-frame.tsx';
import type { JobUpdate } from '../../../protocol/index.ts';
import { devicesText, executionWork } from './executions-page.tsx';
import { useState } from 'react';
import { DeviceLink } from '../backup/index.ts';
import styles from './timeline.module.css';

const route = getRouteApi('/signed-in/recovery/executions/$executionId');
const READS = [
  'GET /dr/executions/{id}',
  'GET /dr/executions',
  'GET /dr/plans',
  'GET /dr/plans/{id}',
] as const;
const REFRESH_MS = 5000;

/** One execution, step by step, while it goes on and afterwards. */
export function ExecutionPage() {
  const { executionId: id } = route.useParams();
  const execution = useQuery({
    ...apiQuery('GET /dr/executions/{id}', { params: { id } }),
    refetchInterval: ({ state }) => (state.data?.finishedAt === null ? REFRESH_MS : false),
  });
  const [live] = useLiveJobs({ jobId: id });
  // Whatever has become known of it, its steps are read again.
  useRefreshOn(live === undefined ? '' : `${live.state} ${live.phase} ${live.at}`, READS);
  return (
    <Loaded query={execution} what="Reading the execution">
      {(data) => <Execution execution={data} live={live} />}
    </Loaded>
  );
}

function Execution({ execution, live }: { execution: RecoveryExecutionDetail; live: JobUpdate | undefined }) {
  const { id, planId, planName, executionType, status, report, note } = execution;
  const refusal = useRefusal('recovery:execute');
  const abort = useApiChange('POST /dr/executions/{id}/abort', { refreshes: READS });
  const isOpen = execution.finishedAt === null;
  const asked = execution.abortRequestedAt === null ? undefined : 'It is being aborted already.';
  return (
    <RecoveryFrame
      title={`${TYPE_NAMES[executionType]} of ${planName}`}
      description={
        <Group gap={8}>
          <RecoveryState state={status} />
          <span>
            Started by {execution.trigger === 'manual' ? 'a person' : 'its schedule'}{' '}
            <When at={execution.createdAt} />
            {planId !== null && ' · '}
          </span>
          {planId !== null && (
            <TextLink inherit underline="always" to="/recovery/plans/$planId" params={{ planId }}>
              To the plan
            </TextLink>
          )}
        </Group>
      }
      actions={
        isOpen && (
          <ConfirmAction
            variant="default"
            refusal={refusal ?? asked}
            icon={IconPlayerStop}
            title={`Abort this ${executionType}`}
            question={
              executionType === 'rehearsal'
                ? 'What runs on the devices is cancelled, and everything that the rehearsal has started is taken down.'
                : 'What runs on the devices is cancelled. What has been done by then stays so.'
            }
            confirm="Abort"
            run={() => abort.mutateAsync({ params: { id } })}
          >
            Abort …
          </ConfirmAction>
        )
      }
    >
      {note !== null && <Text size="sm">{note}</Text>}
      <WorkStanding work={executionWork(execution, live)} name="the execution" />
      {execution.haltReason !== null && (
        <Notice tone={status === 'failed' ? 'bad' : 'warning'}>{execution.haltReason}</Notice>
      )}
      {report !== null && <Report report={report} execution={execution} />}
      <Timeline execution={execution} />
    </RecoveryFrame>
  );
}

function Report({ report, execution }: { report: RecoveryReport; execution: RecoveryExecutionDetail }) {
  const { rtoSeconds, rtoTargetMinutes, rtoMet, rpoSeconds, rpoTargetMinutes, rpoMet } = report;
  const { startedAt, finishedAt, executionType } = execution;
  return (
    <Panel title="Report">
      <FactLine
        facts={[
          [
            'Time to recover (RTO)',
            <Reached key="rto" seconds={rtoSeconds} targetMinutes={rtoTargetMinutes} isMet={rtoMet} />,
          ],
          [
            'Age of the data (RPO)',
            executionType === 'failback' ? undefined : (
              <Reached key="rpo" seconds={rpoSeconds} targetMinutes={rpoTargetMinutes} isMet={rpoMet} />
            ),
          ],
          ['Devices', devicesText(execution)],
          [
            'Took in all',
            startedAt === null || finishedAt === null
              ? undefined
              : formatDuration(Date.parse(finishedAt) - Date.parse(startedAt)),
          ],
          [
            'Abort took',
            report.abortSeconds === null ? undefined : formatDuration(report.abortSeconds * 1000),
          ],
          [
            'Left behind',
            report.leftovers === 0
              ? 'Nothing'
              : `${formatCount(report.leftovers)} on devices that are away, until they return`,
          ],
        ]}
      />
    </Panel>
  );
}

type ExecutedGroup = RecoveryExecutionDetail['groups'][number];
const COLUMNS = 5;
const SECOND_MS = 1000;

/** Each device, group by group, with its time from the beginning of the execution on. */
function Timeline({ execution }: { execution: RecoveryExecutionDetail }) {
  const begin = Date.parse(execution.startedAt ?? execution.createdAt);
  const end = Math.max(begin + SECOND_MS, useEnd(execution));
  const span = { begin, end };
  const names = new Map(execution.groups.map(({ id, name }) => [id, name]));
  return (
    <Table.ScrollContainer minWidth={680}>
      <Table verticalSpacing={5} layout="fixed" aria-label="Steps of the execution">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w="24%">Device</Table.Th>
            <Table.Th w="22%">Restored to</Table.Th>
            <Table.Th w={190}>State</Table.Th>
            <Table.Th>
              <Group justify="space-between" wrap="nowrap">
                <span>Time</span>
                <Text size="xs" c="dimmed" fw={400}>
                  0 to {formatDuration(end - begin)}
                </Text>
              </Group>
            </Table.Th>
            <Table.Th w={120} ta="right">
              Works after
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        {execution.groups.map((group) => (
          <Table.Tbody key={group.id} aria-label={`Group ${group.name}`}>
            <GroupRow group={group} before={names.get(group.dependsOnGroupId ?? '')} />
            {group.steps.map((step) => (
              <Step key={step.id} step={step} span={span} />
            ))}
          </Table.Tbody>
        ))}
      </Table>
    </Table.ScrollContainer>
  );
}

function GroupRow({ group, before }: { group: ExecutedGroup; before: string | undefined }) {
  const { name, status, sequence, startedAt, finishedAt, estimatedDurationMinutes } = group;
  const notes = [
    `number ${sequence}`,
    before === undefined ? undefined : `waits for ${before}`,
    startedAt === null || finishedAt === null
      ? estimatedDurationMinutes === null
        ? undefined
        : `about ${formatDuration(estimatedDurationMinutes * 60_000)}`
      : `took ${formatDuration(Date.parse(finishedAt) - Date.parse(startedAt))}`,
  ].filter((note) => note !== undefined);
  return (
    <Table.Tr bg="var(--mantine-color-default-hover)">
      <Table.Th scope="rowgroup" colSpan={COLUMNS}>
        <Group gap={8}>
          {name}
          <RecoveryState state={status} />
          <Text size="xs" c="dimmed" fw={400}>
            {notes.join(' · ')}
          </Text>
        </Group>
      </Table.Th>
    </Table.Tr>
  );
}

interface Span {
  begin: number;
  /** The present time for an execution that goes on. */
  end: number;
}

/** The clock of the page moves every ten seconds only, so what has happened since its last move counts as well. */
function useEnd({ finishedAt, groups }: RecoveryExecutionDetail): number {
  const now = useNow();
  if (finishedAt !== null) return Date.parse(finishedAt);
  const times = groups.flatMap(({ steps }) =>
    steps.flatMap((step) => [step.startedAt, step.readyAt, step.finishedAt]),
  );
  return Math.max(now, ...times.map((at) => (at === null ? 0 : Date.parse(at) + SECOND_MS)));
}

function Step({ step, span }: { step: RecoveryStep; span: Span }) {
  // A failure is shown without asking.
  const [chosen, setOpen] = useState<boolean>();
  const isOpen = chosen ?? step.state === 'failed';
  const name = nameOf(step);
  const Arrow = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <>
      <Table.Tr>
        <Table.Th scope="row" fw={500}>
          <UnstyledButton
            aria-expanded={isOpen}
            aria-label={`What is done for ${name}`}
            fz="sm"
            onClick={() => setOpen(!isOpen)}
          >
            <Group gap={4} wrap="nowrap">
              <Arrow size={14} aria-hidden style={{ flexShrink: 0 }} />
              <span style={{ overflowWrap: 'anywhere' }}>{name}</span>
            </Group>
          </UnstyledButton>
        </Table.Th>
        <Table.Td style={{ overflowWrap: 'anywhere' }}>
          {step.targetDeviceId === step.deviceId ? 'Itself' : step.targetDeviceName}{' '}
          <Text span size="xs" c="dimmed">
            {RESTORE_NAMES[step.restoreType]}
          </Text>
        </Table.Td>
        <Table.Td>
          <Group gap={6}>
            <RecoveryState state={step.state} />
            <CleanupText cleanup={step.cleanup} />
          </Group>
        </Table.Td>
        <Table.Td>
          <Track step={step} span={span} />
        </Table.Td>
        <Table.Td ta="right">
          {step.rtoSeconds === null ? '–' : formatDuration(step.rtoSeconds * 1000)}
        </Table.Td>
      </Table.Tr>
      {isOpen && (
        <Table.Tr>
          <Table.Td colSpan={COLUMNS} pl={32}>
            <StepActions step={step} />
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}

const CLEANUP: Readonly<Partial<Record<RecoveryStep['cleanup'], string>>> = {
  running: 'being taken down',
  completed: 'taken down',
  failed: 'not taken down yet',
};

function CleanupText({ cleanup }: Pick<RecoveryStep, 'cleanup'>) {
  const text = CLEANUP[cleanup];
  return text === undefined ? null : (
    <Text size="xs" c={cleanup === 'failed' ? 'var(--mantine-color-error)' : 'dimmed'}>
      {text}
    </Text>
  );
}

/** When the step was worked on, to scale. The words beside it say the same. */
function Track({ step, span }: { step: RecoveryStep; span: Span }) {
  const { begin, end } = span;
  if (step.startedAt === null) return <div className={styles['track']} />;
  const part = (at: number) => Math.min(100, Math.max(0, (100 * (at - begin)) / (end - begin)));
  const from = part(Date.parse(step.startedAt));
  const last = step.finishedAt === null ? end : Date.parse(step.finishedAt);
  const ready = step.readyAt === null ? last : Date.parse(step.readyAt);
  return (
    <div className={styles['track']}>
      <div
        className={styles['bar']}
        data-state={step.state}
        style={{ left: `${from}%`, width: `${part(ready) - from}%` }}
      />
      {last > ready && (
        <div
          className={styles['after']}
          style={{ left: `${part(ready)}%`, width: `${part(last) - part(ready)}%` }}
        />
      )}
    </div>
  );
}

/** The steps for one device in their order, with their outcomes. */
function StepActions({ step }: { step: RecoveryStep }) {
  return (
    <Stack gap={6}>
      <Text size="xs" c="dimmed" component="div">
        {isSaved(step) ? (
          <>
            Bring it back from{' '}
            <TextLink inherit to="/backup/snapshots/$snapshotId" params={{ snapshotId: step.snapshotId }}>
              the snapshot that was made of it
            </TextLink>
            .
          </>
        ) : step.recoveryPointAt === null ? (
          pointText(step)
        ) : (
          <>
            Data of <When at={step.recoveryPointAt} />
            {step.rpoSeconds !== null &&
              `, ${formatDuration(step.rpoSeconds * 1000)} old when the execution began`}
            .
          </>
        )}
      </Text>
      {step.error !== null && (
        <Text size="sm" c="var(--mantine-color-error)">
          {step.error.message}
        </Text>
      )}
      {step.actions.map((action) => (
        <Action key={action.id} action={action} />
      ))}
    </Stack>
  );
}

/** A machine that a failback has backed up, and not brought back. */
const isSaved = (step: RecoveryStep): step is RecoveryStep & { snapshotId: string } =>
  step.snapshotId !== null && step.actions.some(({ kind }) => kind === 'backup');

/** Why it is not known of when the data is. */
function pointText({ snapshotId, actions }: RecoveryStep): string {
  if (actions.some(({ kind }) => kind === 'backup')) return 'The data is backed up first.';
  return snapshotId === null ? 'There is no snapshot.' : 'The snapshot is being read.';
}

function Action({ action }: { action: RecoveryAction }) {
  const { name, state, message, error, startedAt, finishedAt, deviceId } = action;
  const text = error?.message ?? message;
  return (
    <Group gap={8} align="flex-start" wrap="nowrap">
      <Box w={100} style={{ flexShrink: 0 }}>
        <RecoveryState state={state} />
      </Box>
      <div>
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          {name}
          {startedAt !== null &&
            finishedAt !== null &&
            `, ${formatDuration(Date.parse(finishedAt) - Date.parse(startedAt))}`}
        </Text>
        <Text size="xs" c="dimmed" component="div">
          On <DeviceLink id={deviceId} />
          <ActionProgress action={action} />
        </Text>
        {text !== null && (
          <Text
            size="xs"
            c={error === null ? 'dimmed' : 'var(--mantine-color-error)'}
            style={{ overflowWrap: 'anywhere' }}
          >
            {text}
          </Text>
        )}
      </div>
    </Group>
  );
}

/** Where the work itself is shown. */
function ActionProgress({ action: { restoreId, backupJobId } }: { action: RecoveryAction }) {
  if (restoreId !== null) {
    return (
      <>
        {' · '}
        <TextLink inherit underline="always" to="/backup/restores" search={{ restore: restoreId }}>
          Its restore
        </TextLink>
      </>
    );
  }
  if (backupJobId === null) return null;
  return (
    <>
      {' · '}
      <TextLink inherit underline="always" to="/backup/jobs" search={{ job: backupJobId }}>
        Its backup
      </TextLink>
    </>
  );
}
