import { Button, Group, Loader, Progress, Text } from '@mantine/core';
import { IconClockX, IconPlugConnectedX } from '@tabler/icons-react';
import { useEffect, useState } from 'react';
import { formatCount, formatTime, Notice } from '../../ui/index.ts';
import type { QueryState } from './log-feed.ts';
import { narrowings } from './log-filter.ts';
import type { LogSearch } from './log-search.ts';

/** The server ends a live query after this time. */
const LIMIT_MS = 30_000;

/** How the reading goes, and how it has ended if it did not end well. */
export function QueryNotice({
  query,
  search,
  logSize,
  onSearch,
  onCancel,
  onAgain,
  onFurther,
  onStored,
}: {
  query: QueryState;
  search: LogSearch;
  /** How many entries the log has. */
  logSize: number | undefined;
  onSearch: (change: Partial<LogSearch>, isStep?: boolean) => void;
  onCancel: () => void;
  onAgain: () => void;
  /** Goes on reading before this time, for a query of one device. */
  onFurther?: (before: string) => void;
  /** Shows what the server has stored of the device. */
  onStored: (() => void) | undefined;
}) {
  if (query.state === 'idle') return null;
  if (query.state === 'running') return <Running query={query} logSize={logSize} onCancel={onCancel} />;
  const { reason, arrived, message, tookMs } = query;
  const [outcome] = query.outcomes;
  const kept =
    arrived === 0 ? 'Nothing had arrived.' : `The ${formatCount(arrived)} entries that had arrived are kept.`;
  const again = (
    <Button variant="default" size="compact-xs" onClick={onAgain}>
      Refresh
    </Button>
  );
  const stored = onStored !== undefined && (
    <Button variant="default" size="compact-xs" onClick={onStored}>
      Show stored events
    </Button>
  );
  const lookedBackTo = outcome?.lookedBackTo;
  const further = lookedBackTo !== undefined && onFurther !== undefined && (
    <Button key="further" size="compact-xs" onClick={() => onFurther(lookedBackTo)}>
      Look further back
    </Button>
  );
  const narrower = narrowings(search).map(({ label, change }) => (
    <Button key={label} variant="default" size="compact-xs" onClick={() => onSearch(change, true)}>
      {label}
    </Button>
  ));
  switch (reason) {
    case 'complete':
      if (outcome?.truncated !== true) return null;
      return (
        <Notice role="status" tone="warning" icon={IconClockX} actions={[further, ...narrower]}>
          The device stopped before it had read the whole log
          {outcome.scanned === undefined ? '' : `, after ${formatCount(outcome.scanned)} records`}
          {outcome.lookedBackTo === undefined ? '' : ` back to ${formatTime(new Date(outcome.lookedBackTo))}`}
          . {outcome.note ?? 'Older entries may be missing.'} A narrower query reaches further back:
        </Notice>
      );
    case 'timed_out':
      return (
        <Notice role="status" tone="warning" icon={IconClockX} actions={[...narrower, again]}>
          The device did not finish within 30 seconds. {kept} A narrower query is quicker:
        </Notice>
      );
    case 'cancelled':
      return (
        <Notice role="status" tone="info" actions={again}>
          Cancelled after {Math.max(1, Math.round(tookMs / 1000))} s. {kept}
        </Notice>
      );
    case 'offline':
      return (
        <Notice role="status" tone="warning" icon={IconPlugConnectedX} actions={[stored, again]}>
          The device is not connected, so its logs cannot be read now. {arrived > 0 && kept}
        </Notice>
      );
    case 'connection_lost':
      return (
        <Notice role="status" tone="warning" icon={IconPlugConnectedX} actions={again}>
          The connection to the server was lost. {kept}
        </Notice>
      );
    case 'error':
      return (
        <Notice role="status" tone="bad" actions={[again, stored]}>
          The device could not read the log{message === undefined ? '.' : `: ${message}`}{' '}
          {arrived > 0 && kept}
        </Notice>
      );
    case 'refused':
      return (
        <Notice role="status" tone="bad" actions={again}>
          {message ?? 'The server refused the query.'}
        </Notice>
      );
    default:
      return reason satisfies never;
  }
}

function Running({
  query,
  logSize,
  onCancel,
}: {
  query: Extract<QueryState, { state: 'running' }>;
  logSize: number | undefined;
  onCancel: () => void;
}) {
  const [now, setNow] = useState(query.since);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, []);
  const passed = Math.max(0, now - query.since);
  return (
    <div>
      <Group gap="xs" mih={26}>
        <Loader size="xs" aria-hidden />
        <Text size="sm">
          {query.isOlder ? 'Reading older entries' : 'The device reads its log'}: {formatCount(query.arrived)}{' '}
          have arrived{logSize !== undefined && logSize > 0 && ` of a log of about ${formatCount(logSize)}`},{' '}
          {Math.floor(passed / 1000)} s
        </Text>
        <Button size="compact-xs" variant="default" onClick={onCancel}>
          Cancel
        </Button>
      </Group>
      <Progress
        size={3}
        value={Math.min(100, (passed / LIMIT_MS) * 100)}
        aria-label="Part of the 30 seconds that a device has"
      />
    </div>
  );
}
