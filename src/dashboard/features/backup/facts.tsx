import { Text, Group } from '@mantine/core';
import { useEffect } from 'react';
import { JobStateBadge, StateBadge, type Tone, TextLink } from '../../ui/index.ts';
import { useJobStandings } from '../../live/index.ts';
import type { DetailsOf } from './texts.ts';

/** How a command stands that a device was just sent, and what it has said. */
export function CommandStatus({
  id,
  deviceId,
  onDone,
}: {
  id: string;
  deviceId: string;
  /** Called once the device has done it. */
  onDone?: () => void;
}) {
  const standing = useJobStandings([id]).get(id);
  const isDone = standing?.state === 'succeeded';
  useEffect(() => {
    if (isDone) onDone?.();
    // Whatever is to be done then is to be done once.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isDone]);
  return (
    <Group gap="xs" role="status">
      <JobStateBadge state={standing?.state ?? 'queued'} />
      <Text size="sm">
        {standing?.message ?? (isDone ? 'The device has done it.' : 'The device was asked to do it.')}
      </Text>
      <TextLink
        size="sm"
        to="/devices/$deviceId"
        params={{ deviceId }}
        search={{ tab: 'commands', command: id }}
      >
        The command
      </TextLink>
    </Group>
  );
}

type Value = DetailsOf<'image'>['consistency'];

const VALUES: Readonly<Record<Value, { tone: Tone; label: string; title: string }>> = {
  application: {
    tone: 'good',
    label: 'Of the applications',
    title: 'The programs had written what they held.',
  },
  filesystem: { tone: 'good', label: 'Of the file systems', title: 'The file systems were whole.' },
  crash: {
    tone: 'info',
    label: 'As after a power cut',
    title: 'What programs had not written yet is missing.',
  },
  none: {
    tone: 'warning',
    label: 'None',
    title: 'The machine went on writing: what changed meanwhile can be damaged.',
  },
};

/** In which state the disks were when they were read. */
export const ConsistencyBadge = ({ value }: { value: Value }) => <StateBadge {...VALUES[value]} />;

const BOOT_MODES = { bios: 'BIOS', uefi: 'UEFI' };

export const bootModeText = (mode: keyof typeof BOOT_MODES | null): string =>
  mode === null ? 'Not known, or both' : BOOT_MODES[mode];
