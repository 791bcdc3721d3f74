import { Text, SimpleGrid } from '@mantine/core';
import type { ReactNode } from 'react';
import {
  AreaPage,
  formatDuration,
  StateBadge,
  type PageProps,
  type Tone,
  type StateLook,
} from '../../ui/index.ts';
import type { RecoveryAction, RecoveryExecution, RecoveryPlan, RecoveryStep } from '../../api/index.ts';

const PLACES = [
  { to: '/recovery', label: 'Plans', below: '/recovery/plans/' },
  { to: '/recovery/executions', label: 'Executions' },
] as const;

/** The pages of recovery are one area: each has the way to the others. */
export const RecoveryFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of recovery" places={PLACES} />
);

type Facts = readonly (readonly [name: string, value: ReactNode])[];

/** A few facts side by side; those that are not known are left out. */
export function FactLine({ facts }: { facts: Facts }) {
  const known = facts.filter(([, value]) => value !== undefined);
  return (
    <SimpleGrid component="dl" cols={{ base: 2, md: known.length }} m={0} spacing="md">
      {known.map(([name, value]) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="sm" m={0}>
            {value}
          </Text>
        </div>
      ))}
    </SimpleGrid>
  );
}

export type ExecutionType = RecoveryExecution['executionType'];

export const TYPE_NAMES: Readonly<Record<ExecutionType, string>> = {
  rehearsal: 'Rehearsal',
  failover: 'Failover',
  failback: 'Failback',
};

export const RESTORE_NAMES: Readonly<Record<RecoveryStep['restoreType'], string>> = {
  files: 'Files',
  vm: 'Virtual machine',
  instant: 'Instant boot',
};

const PLAN_STATES: Readonly<Record<RecoveryPlan['status'], { tone: Tone; label: string; title: string }>> = {
  draft: { tone: 'neutral', label: 'Draft', title: 'It is still being written. It can be executed.' },
  active: { tone: 'good', label: 'Active', title: 'It is what is done when a disaster has struck.' },
  archived: { tone: 'neutral', label: 'Archived', title: 'It is not executed any more.' },
};
export const PlanState = ({ status }: Pick<RecoveryPlan, 'status'>) => (
  <StateBadge {...PLAN_STATES[status]} />
);

const STATES: Readonly<
  Record<RecoveryExecution['status'] | RecoveryStep['state'] | RecoveryAction['state'], [Tone, string]>
> = {
  pending: ['neutral', 'Waits'],
  waiting: ['neutral', 'Waits'],
  running: ['busy', 'Running'],
  checking: ['busy', 'Checking'],
  completed: ['good', 'Completed'],
  succeeded: ['good', 'Done'],
  failed: ['bad', 'Failed'],
  skipped: ['neutral', 'Skipped'],
  aborted: ['warning', 'Aborted'],
  cancelled: ['warning', 'Cancelled'],
};

/** The state of an execution, of a group, of a step or of what a step does. */
export function recoveryState(state: keyof typeof STATES): StateLook {
  const [tone, label] = STATES[state];
  return { tone, label };
}

export const RecoveryState = ({ state }: { state: keyof typeof STATES }) => (
  <StateBadge {...recoveryState(state)} />
);

/** "4 min of 30 min", and whether that is what the plan demands. */
export function Reached({
  seconds,
  targetMinutes,
  isMet,
}: {
  seconds: number | null;
  targetMinutes: number | null;
  isMet: boolean | null;
}) {
  const target = targetMinutes === null ? undefined : formatDuration(targetMinutes * 60_000);
  if (seconds === null && isMet === null) {
    return (
      <Text span inherit c="dimmed">
        {target === undefined ? '–' : `Target ${target}`}
      </Text>
    );
  }
  const reached = seconds === null ? 'Not reached' : formatDuration(seconds * 1000);
  const text = target === undefined ? reached : `${reached} of ${target}`;
  if (isMet === null) return text;
  return (
    <StateBadge
      tone={isMet ? 'good' : 'bad'}
      label={text}
      title={isMet ? 'Within the target.' : 'The target was missed.'}
    />
  );
}

/** The subject of a restore: a device, or a guest of it. */
export const nameOf = ({ deviceName, machine }: { deviceName: string; machine: string | null }): string =>
  machine === null ? deviceName : `${machine} of ${deviceName}`;
