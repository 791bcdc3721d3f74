import { Anchor, Button, Card, Group, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Action, Empty, Loaded, NameCell, Page, PagedTable, When } from '../../ui/index.ts';
import { EXAMPLES } from './examples.ts';
import { UsedBy } from './panels/used-by.tsx';

const route = getRouteApi('/signed-in/filters');
/** The list comes at once; of each shown filter, the uses are read. */
const PER_PAGE = 20;

/** Saved conditions that find devices. */
export function FiltersPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const open = useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('filters:write');
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const searchFor = useDebouncedCallback((q: string) => change({ q: q.trim() === '' ? undefined : q }), 300);
  const filters = useQuery({
    ...apiQuery('GET /filters', { query: { search: search.q } }),
    placeholderData: keepPreviousData,
  });
  const newFilter = (
    <Action
      refusal={refusal}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => void open({ to: '/filters/new' })}
    >
      New filter
    </Action>
  );
  return (
    <Page
      title="Filters"
      description="Saved conditions that find devices, for the device list, groups, scripts and backups."
      actions={newFilter}
    >
      <Group>
        <TextInput
          w={260}
          placeholder="Search names and descriptions"
          aria-label="Search filters"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
      </Group>
      <Loaded query={filters} what="Reading filters">
        {({ data }) => {
          const mine = data.filter((filter) => orgId === undefined || filter.orgId === orgId);
          const page = Math.min(search.page ?? 1, Math.max(1, Math.ceil(mine.length / PER_PAGE)));
          if (mine.length === 0) {
            return search.q === undefined ? (
              <Examples refusal={refusal} />
            ) : (
              <Empty title="No filter has this in its name or description" action={newFilter}>
                Search for something else, or make a filter.
              </Empty>
            );
          }
          return (
            <PagedTable
              label="Filters"
              rows={mine.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
              keyOf={({ id }) => id}
              page={{ page, limit: PER_PAGE, total: mine.length }}
              onPage={(next) => change({ page: next })}
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
                    <Anchor
                      inherit
                      aria-label={`Show devices that match ${name}`}
                      renderRoot={(props) => <Link {...props} to="/devices" search={{ filter: id }} />}
                    >
                      Show devices
                    </Anchor>
                  ),
                },
              ]}
            />
          );
        }}
      </Loaded>
    </Page>
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
              {refusal === undefined ? (
                <Button
                  variant="default"
                  aria-label={`Begin with this: ${name}`}
                  onClick={() => void open({ to: '/filters/new', search: { example: id } })}
                >
                  Begin with this
                </Button>
              ) : (
                <Action variant="default" refusal={refusal} onClick={() => undefined}>
                  Begin with this
                </Action>
              )}
            </Stack>
          </Card>
        ))}
      </SimpleGrid>
    </Stack>
  );
}
