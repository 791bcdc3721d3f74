import { Button, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Failure, Loading } from '../../../ui/index.ts';
import { CONTEXT_SIZE, readContext, type ReadBetween } from '../model/context-window.ts';
import type { LogRow } from '../model/log-row.ts';
import { timeIn } from '../model/log-time.ts';
import styles from './entry-panel.module.css';
import { SeverityIcon } from './severity.tsx';

/** What else happened around an entry, without any filter. */
export function EntryContext({
  row,
  zone,
  read,
  onOpen,
}: {
  row: LogRow;
  zone: string;
  read: (signal: AbortSignal) => ReadBetween;
  onOpen: (row: LogRow) => void;
}) {
  /** The entry that the context belongs to. It stays while its neighbours are opened. */
  const [center, setCenter] = useState<LogRow>();
  const context = useQuery({
    queryKey: ['event-log-context', center?.key],
    queryFn: ({ signal }) => (center === undefined ? [] : readContext(center, read(signal), Date.now())),
    enabled: center !== undefined,
    staleTime: Infinity,
    retry: false,
  });
  const isAround = context.data?.some(({ key }) => key === row.key) ?? false;
  if (center === undefined || (context.data !== undefined && !isAround)) {
    return (
      <Button variant="default" size="xs" onClick={() => setCenter(row)}>
        Show {CONTEXT_SIZE} entries before and after
      </Button>
    );
  }
  return (
    <section aria-label="Context">
      <Text size="sm" fw={600} mb={4}>
        Around this entry, newest first, unfiltered
      </Text>
      {context.isPending && <Loading what="Reading the entries around it" />}
      {context.error !== null && <Failure error={context.error} retry={() => void context.refetch()} />}
      <ul className={styles['context']}>
        {context.data?.map((each) => (
          <li key={each.key}>
            <button type="button" aria-current={each.key === row.key} onClick={() => onOpen(each)}>
              <span>{timeIn(zone, each.at).slice(11)}</span>
              <SeverityIcon level={each.level} />
              <span title={each.message.slice(0, 500)}>
                {each.source}: {each.message.slice(0, 300)}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
