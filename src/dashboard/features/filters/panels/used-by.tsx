import { Anchor, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import { apiQuery } from '../../../api/index.ts';
import { formatWord } from '../../../ui/index.ts';

const STALE_MS = 60_000;

/** What a filter is used by: as long as there is anything, it cannot be deleted. */
export function UsedBy({ filterId }: { filterId: string }) {
  const usage = useQuery({
    ...apiQuery('GET /filters/{id}/usage', { params: { id: filterId } }),
    staleTime: STALE_MS,
  });
  const uses = usage.data?.data;
  if (usage.error !== null) return <Text size="sm">Not known</Text>;
  if (uses === undefined) return <Text size="sm">…</Text>;
  if (uses.length === 0) return <Text size="sm">Nothing</Text>;
  return (
    <Text size="sm" component="span">
      {uses.slice(0, 3).map(({ kind, id, name }, place) => (
        <Fragment key={id}>
          {place > 0 && ', '}
          {kind === 'group' ? (
            <Anchor
              inherit
              renderRoot={(props) => <Link {...props} to="/groups/$groupId" params={{ groupId: id }} />}
            >
              group {name}
            </Anchor>
          ) : (
            `${formatWord(kind).toLowerCase()} ${name}`
          )}
        </Fragment>
      ))}
      {uses.length > 3 && ` and ${uses.length - 3} more`}
    </Text>
  );
}
