import { Badge, Tooltip } from '@mantine/core';
import { IconBolt, IconPlugConnectedX, IconRefresh } from '@tabler/icons-react';
import { useEffect, useState } from 'react';
import { type ConnectionState, useConnection } from '../../live/index.ts';
import { formatDuration, formatTime } from '../../ui/index.ts';

interface Shown {
  text: string;
  /** In a sentence. */
  meaning: string;
  color: string;
  icon: typeof IconBolt;
}

/** Whether what is shown is kept up to date; if not, since when it is old. */
export function ConnectionPill() {
  const connection = useConnection();
  const {
    text,
    meaning,
    color,
    icon: Icon,
  } = shownOf(connection, useSeconds(connection.state !== 'live' && connection.state !== 'stopped'));
  return (
    <Tooltip label={meaning} multiline maw={300}>
      <Badge
        variant="light"
        color={color}
        tt="none"
        leftSection={<Icon size={12} aria-hidden />}
        role="status"
      >
        {text}
      </Badge>
    </Tooltip>
  );
}

/** The time by a clock that moves on every second while it is shown. */
function useSeconds(isShown: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isShown) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isShown]);
  return now;
}

function shownOf(connection: ConnectionState, now: number): Shown {
  if (connection.state === 'live') return connection.isWhole ? LIVE : LIVE_IN_PART;
  if (connection.state === 'stopped') return OFFLINE;
  const { since } = connection;
  if (since === undefined) return CONNECTING;
  return {
    text: `Reconnecting · data is ${formatDuration(Math.max(0, now - since))} old`,
    meaning: `The connection was lost at ${formatTime(new Date(since))}. The page shows what was known then, and tries again by itself.`,
    color: 'orange',
    icon: IconPlugConnectedX,
  };
}

const LIVE: Shown = {
  text: 'Live',
  meaning: 'The page shows changes as they happen.',
  color: 'teal',
  icon: IconBolt,
};
const LIVE_IN_PART: Shown = {
  text: 'Live in part',
  meaning:
    'This server does not reach the other servers. Devices that are connected to those are shown as they were last known. The page catches up by itself.',
  color: 'orange',
  icon: IconPlugConnectedX,
};
const CONNECTING: Shown = {
  text: 'Connecting',
  meaning: 'The page connects to the server.',
  color: 'gray',
  icon: IconRefresh,
};
const OFFLINE: Shown = {
  text: 'Offline',
  meaning: 'There is no connection to the server.',
  color: 'orange',
  icon: IconPlugConnectedX,
};
