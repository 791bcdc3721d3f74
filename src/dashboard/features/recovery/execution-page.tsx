import { Group, Table, Text, UnstyledButton } from '@mantine/core';
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import { useState } from 'react';
import type { RecoveryExecutionDetail, RecoveryStep } from '../../../api/index.ts';
import { formatDuration, useNow } from '../../../ui/index.ts';
import { nameOf, RecoveryState, RESTORE_NAMES } from '../parts/recovery-words.tsx';
import { StepActions } from './step-actions.tsx';
import styles from './timeline.module.css';

type ExecutedGroup = RecoveryExecutionDetail['groups'][number];
const COLUMNS = 5;
const SECOND_MS = 1000;

/** Each device, group by group, with its time from the beginning of the execution on. */
export function Timeline({ execution }: { execution: RecoveryExecutionDetail }) {
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
  /** Of an execution that goes on: now. */
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
