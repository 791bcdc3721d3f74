import { Badge, Tooltip } from '@mantine/core';
import { IconBolt, IconPlugConnectedX, IconRefresh } from '@tabler/icons-react';
import { useConnection } from '../../live/index.ts';
import { formatDuration, formatTime, useNow } from '../../ui/index.ts';

/** Whether what is shown is kept up to date; if not, since when it is old. */
export function ConnectionPill() {
  const connection = useConnection();
  const now = useNow();
  if (connection.state === 'live') {
    return (
      <Tooltip label="The page shows changes as they happen.">
        <Badge
          variant="light"
          color="teal"
          tt="none"
          leftSection={<IconBolt size={12} aria-hidden />}
          role="status"
        >
          Live
        </Badge>
      </Tooltip>
    );
  }
  const since = connection.state === 'connecting' ? connection.since : undefined;
  if (connection.state === 'connecting' && since === undefined) {
    return (
      <Badge
        variant="light"
        color="gray"
        tt="none"
        leftSection={<IconRefresh size={12} aria-hidden />}
        role="status"
      >
        Connecting
      </Badge>
    );
  }
  const label =
    since === undefined
      ? 'There is no connection to the server.'
      : `The connection was lost at ${formatTime(new Date(since))}. The page shows what was known then, and tries again by itself.`;
  return (
    <Tooltip label={label} multiline maw={300}>
      <Badge
        variant="light"
        color="orange"
        tt="none"
        leftSection={<IconPlugConnectedX size={12} aria-hidden />}
        role="status"
      >
        {since === undefined
          ? 'Offline'
          : `Reconnecting · data is ${formatDuration(Math.max(0, now - since))} old`}
      </Badge>
    </Tooltip>
  );
}
