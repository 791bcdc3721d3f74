import { Anchor, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { useJobStandings } from '../../../live/index.ts';
import { JobStateBadge } from '../../../ui/index.ts';

/** How a command stands that a device was just sent, and what it has said. */
export function CommandStanding({
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
      <Anchor
        size="sm"
        renderRoot={(props) => (
          <Link
            {...props}
            to="/devices/$deviceId"
            params={{ deviceId }}
            search={{ tab: 'commands', command: id }}
          />
        )}
      >
        The command
      </Anchor>
    </Group>
  );
}
