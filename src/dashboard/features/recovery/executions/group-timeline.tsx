import { Group, Table, Text, UnstyledButton } from '@mantine/core';
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import { useState } from 'react';
import type { RecoveryExecutionDetail, RecoveryStep } from '../../../api/index.ts';
import { formatDuration, Panel, useNow } from '../../../ui/index.ts';
import { RecoveryState, RESTORE_NAMES } from '../parts/recovery-words.tsx';
import { StepActions } from './step-actions.tsx';
import styles from './timeline.module.css';

type ExecutedGroup = RecoveryExecutionDetail['groups'][number];
const COLUMNS = 5;

/** One group: each device with its time from the beginning of the execution on. */
export function GroupTimeline({
  group,
  execution,
}: {
  group: ExecutedGroup;
  execution: RecoveryExecutionDetail;
}) {
  const now = useNow();
  const begin = Date.parse(execution.startedAt ?? execution.createdAt);
  const end = Math.max(begin + 1000, execution.finishedAt === null ? now : Date.parse(execution.finishedAt));
  const before = execution.groups.find(({ id }) => id === group.dependsOnGroupId);
  return (
    <Panel
      title={group.name}
      label={`Group ${group.name}`}
      aside={
        <Group gap={8}>
          {before !== undefined && (
            <Text size="xs" c="dimmed">
              waits for {before.name}
            </Text>
          )}
          <RecoveryState state={group.status} />
        </Group>
      }
    >
      <Table.ScrollContainer minWidth={620}>
        <Table verticalSpacing={5} layout="fixed" aria-label={`Devices of the group ${group.name}`}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w="24%">Device</Table.Th>
              <Table.Th w="20%">Restored to</Table.Th>
              <Table.Th w={120}>State</Table.Th>
              <Table.Th>
                <Group justify="space-between" wrap="nowrap">
                  <span>Time</span>
                  <Text size="xs" c="dimmed" fw={400}>
                    0 to {formatDuration(end - begin)}
                  </Text>
                </Group>
              </Table.Th>
              <Table.Th w={110} ta="right">
                Works after
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {group.steps.map((step) => (
              <Step key={step.id} step={step} span={{ begin, end, now: Math.min(now, end) }} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Panel>
  );
}

interface Span {
  begin: number;
  end: number;
  now: number;
}

function Step({ step, span }: { step: RecoveryStep; span: Span }) {
  // A failure is shown without asking.
  const [chosen, setOpen] = useState<boolean>();
  const isOpen = chosen ?? step.state === 'failed';
  const Arrow = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <>
      <Table.Tr>
        <Table.Th scope="row" fw={500}>
          <UnstyledButton
            aria-expanded={isOpen}
            aria-label={`What is done for ${step.deviceName}`}
            fz="sm"
            onClick={() => setOpen(!isOpen)}
          >
            <Group gap={4} wrap="nowrap">
              <Arrow size={14} aria-hidden style={{ flexShrink: 0 }} />
              <span style={{ overflowWrap: 'anywhere' }}>{step.deviceName}</span>
            </Group>
          </UnstyledButton>
        </Table.Th>
        <Table.Td style={{ overflowWrap: 'anywhere' }}>
          {step.targetDeviceId === step.deviceId ? 'Itself' : step.targetDeviceName}
          <Text size="xs" c="dimmed">
            {RESTORE_NAMES[step.restoreType]}
          </Text>
        </Table.Td>
        <Table.Td>
          <RecoveryState state={step.state} />
          <CleanupText cleanup={step.cleanup} />
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
  const { begin, end, now } = span;
  if (step.startedAt === null) return <div className={styles['track']} />;
  const part = (at: number) => Math.min(100, Math.max(0, (100 * (at - begin)) / (end - begin)));
  const from = part(Date.parse(step.startedAt));
  const last = step.finishedAt === null ? now : Date.parse(step.finishedAt);
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
