import { Button, Group } from '@mantine/core';
import type { EventLogMetadata } from '../../../api/index.ts';
import { formatCount } from '../../../ui/index.ts';
import type { FeedState } from '../feed/feed-state.ts';
import { PAGE } from '../feed/log-feed.ts';
import { MAX_ROWS } from '../model/log-row.ts';
import { timeIn } from '../model/log-time.ts';
import styles from './live-event-log.module.css';

/** What is loaded of the log, what is not, and the way to older entries. */
export function LiveFooter({
  state,
  shown,
  log,
  zone,
  onOlder,
  onCurl,
  isCopied,
}: {
  state: FeedState;
  shown: number;
  log: EventLogMetadata | undefined;
  zone: string;
  onOlder: () => void;
  onCurl: () => void;
  isCopied: boolean;
}) {
  const { rows, query, hasOlder, dropped } = state;
  const oldest = rows.at(-1);
  const hidden = rows.length - shown;
  const isFull = rows.length >= MAX_ROWS;
  const [outcome] = query.state === 'ended' ? query.outcomes : [];
  const parts = [
    `${formatCount(shown)} shown`,
    hidden > 0 ? `${formatCount(hidden)} hidden by conditions applied here` : undefined,
    oldest === undefined ? undefined : `back to ${timeIn(zone, oldest.at).slice(0, 19)}`,
    outcome?.total === undefined ? undefined : `${formatCount(outcome.total)} match in the whole log`,
    outcome?.scanned === undefined ? undefined : `${formatCount(outcome.scanned)} records read`,
    !hasOlder && !isFull && rows.length > 0 && query.state === 'ended' && query.reason === 'complete'
      ? 'nothing older matches'
      : undefined,
    isFull ? `at most ${formatCount(MAX_ROWS)} entries are held` : undefined,
    dropped > 0 ? `the ${formatCount(dropped)} oldest were dropped` : undefined,
    log?.note,
  ];
  return (
    <div className={styles['footer']}>
      <output>{parts.filter((part) => part !== undefined && part !== '').join(' · ')}</output>
      <Group gap={6}>
        {hasOlder && (
          <Button size="compact-xs" variant="default" disabled={query.state === 'running'} onClick={onOlder}>
            Load {PAGE} older
          </Button>
        )}
        <Button size="compact-xs" variant="subtle" onClick={onCurl}>
          {isCopied ? 'Copied' : 'Copy query as curl'}
        </Button>
      </Group>
    </div>
  );
}
