import { Button, Group, Text } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Action, Failure, When } from '../../ui/index.ts';

/**
 * What a device is asked for while a person waits is read when the person wants it, and not again by itself: each reading
 * costs the device something, and is in the audit trail.
 */
export const ON_DEMAND = {
  staleTime: Number.POSITIVE_INFINITY,
  // What was read on an earlier visit of the tab may be hours old.
  refetchOnMount: 'always',
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
  retry: false,
} as const;

/** When it was read, and the button that reads it again. What is shown stays while that goes on. */
export function ReadLine({
  query,
  readAt,
  refusal,
  children,
}: {
  query: Pick<UseQueryResult, 'isFetching' | 'error' | 'refetch'>;
  readAt: string | undefined;
  /** Why the device cannot be asked now. */
  refusal: string | undefined;
  /** Behind the time, such as how many there are. */
  children?: ReactNode;
}) {
  const { isFetching, error } = query;
  return (
    <>
      <Group gap="sm">
        {isFetching ? (
          <Button variant="default" loading>
            Refresh
          </Button>
        ) : (
          <Action variant="default" icon={IconRefresh} refusal={refusal} onClick={() => void query.refetch()}>
            Refresh
          </Action>
        )}
        <Text size="sm" component="output">
          {readAt === undefined ? (
            isFetching && 'Asking the device …'
          ) : (
            <>
              Read from the device <When at={readAt} />
              {isFetching && ', asking it again …'}
              {children}
              {refusal !== undefined && `. ${refusal}`}
            </>
          )}
        </Text>
      </Group>
      {error !== null && !isFetching && <Failure error={error} />}
    </>
  );
}
