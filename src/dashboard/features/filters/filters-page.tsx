import { Card, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useList, apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, Empty, ListPage, NameCell, TextLink, useAddress, When, formatWord } from '../../ui/index.ts';
import { EXAMPLES } from './examples.ts';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';

const route = getRouteApi('/signed-in/filters');
/** The list comes at once; of each shown filter, the uses are read. */
const PER_PAGE = 20;

/** Saved conditions that find devices. */
export function FiltersPage() {
  const address = useAddress(route.useSearch());
  const { q, page = 1 } = address.search;
  const open = useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('filters:write');
  const filters = useList('GET /filters', { query: { search: q } });
  const own = filters.data?.data.filter((filter) => orgId === undefined || filter.orgId === orgId);
  const shown = own && {
    data: own.slice((page - 1) * PER_PAGE, page * PER_PAGE),
    pagination: { page, limit: PER_PAGE, total: own.length },
  };
  const newFilter = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => void open({ to: '/filters/new' })}>
      New filter
    </Action>
  );
  return (
    <ListPage
      title="Filters"
      description="Saved conditions that find devices, for the device list, groups, scripts and backups."
      actions={newFilter}
      query={{ data: shown, error: filters.error, refetch: filters.refetch }}
      noun="filters"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        {
          kind: 'text',
          name: 'q',
          label: 'Search filters',
          placeholder: 'Search names and descriptions',
          width: 260,
        },
      ]}
      empty={<Examples refusal={refusal} />}
      noneFound={{
        title: 'No filter has this in its name or description',
        text: 'Search for something else, or make a filter.',
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name, description }) => (
            <NameCell
              name={name}
              description={description}
              to="/filters/$filterId"
              params={{ filterId: id }}
            />
          ),
        },
        { header: 'Organization', cell: (filter) => names.organization(filter.orgId) },
        { header: 'Used by', cell: ({ id }) => <UsedBy filterId={id} /> },
        { header: 'Changed', width: 110, cell: ({ updatedAt }) => <When at={updatedAt} /> },
        {
          header: 'Devices',
          align: 'right',
          width: 120,
          cell: ({ id, name }) => (
            <TextLink
              inherit
              aria-label={`Show devices that match ${name}`}
              to="/devices"
              search={{ filter: id }}
            >
              Show devices
            </TextLink>
          ),
        },
      ]}
    />
  );
}

function Examples({ refusal }: { refusal: string | undefined }) {
  const open = useNavigate();
  return (
    <Stack gap="sm">
      <Empty title="No filters yet">
        A filter finds devices by what is known of them, in groups of conditions as deep as you need. Begin
        with one of these, or with an empty one.
      </Empty>
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        {EXAMPLES.map(({ id, name, description }) => (
          <Card key={id} withBorder padding="sm">
            <Stack gap="xs" align="flex-start" h="100%" justify="space-between">
              <div>
                <Title order={3} size="h5">
                  {name}
                </Title>
                <Text size="sm">{description}</Text>
              </div>
              <Action
                variant="default"
                refusal={refusal}
                aria-label={`Begin with this: ${name}`}
                onClick={() => void open({ to: '/filters/new', search: { example: id } })}
              >
                Begin with this
              </Action>
            </Stack>
          </Card>
        ))}
      </SimpleGrid>
    </Stack>
  );
}

const STALE_MS = 60_000;

/** The users of a filter: as long as it has any, it cannot be deleted. */
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
            <TextLink inherit to="/groups/$groupId" params={{ groupId: id }}>
              group {name}
            </TextLink>
          ) : (
            `${formatWord(kind).toLowerCase()} ${name}`
          )}
        </Fragment>
      ))}
      {uses.length > 3 && ` and ${uses.length - 3} more`}
    </Text>
  );
}
