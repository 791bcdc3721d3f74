import { Group, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Action, Empty, formatDuration, Loaded, NameCell, Page, PagedTable, When } from '../../ui/index.ts';
import { LANGUAGE_NAMES, LANGUAGES, systemsText } from './words.ts';

const route = getRouteApi('/signed-in/scripts');

/** Scripts that are kept to be run again. */
export function ScriptsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const open = useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('scripts:write');
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const searchFor = useDebouncedCallback((q: string) => change({ q: q.trim() === '' ? undefined : q }), 300);
  const scripts = useQuery({
    ...apiQuery('GET /scripts', {
      query: { orgId, search: search.q, language: search.language, page: String(search.page ?? 1) },
    }),
    placeholderData: keepPreviousData,
  });
  const newScript = (
    <Action
      refusal={refusal}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => void open({ to: '/scripts/new' })}
    >
      New script
    </Action>
  );
  return (
    <Page title="Scripts" description="What is run on devices again and again." actions={newScript}>
      <Group gap="sm">
        <TextInput
          w={240}
          placeholder="Search names"
          aria-label="Search scripts"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
        <Select
          w={160}
          aria-label="Language"
          placeholder="Any language"
          clearable
          clearButtonProps={{ 'aria-label': 'Any language' }}
          data={LANGUAGES.map((value) => ({ value, label: LANGUAGE_NAMES[value] }))}
          value={search.language ?? null}
          onChange={(next) => change({ language: LANGUAGES.find((each) => each === next) })}
        />
      </Group>
      <Loaded query={scripts} what="Reading scripts">
        {({ data, pagination }) =>
          data.length === 0 ? (
            search.q === undefined && search.language === undefined ? (
              <Empty title="No scripts yet" action={newScript}>
                A script is written once and run on any number of devices, with parameters and secrets.
              </Empty>
            ) : (
              <Empty title="No such script">Search for something else, or choose any language.</Empty>
            )
          ) : (
            <PagedTable
              label="Scripts"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  cell: ({ id, name, description }) => (
                    <NameCell
                      name={name}
                      description={description}
                      to="/scripts/$scriptId"
                      params={{ scriptId: id }}
                    />
                  ),
                },
                { header: 'Language', width: 110, cell: ({ language }) => LANGUAGE_NAMES[language] },
                { header: 'Runs on', cell: systemsText },
                {
                  header: 'For',
                  cell: (script) =>
                    script.orgId === null ? 'All organizations' : names.organization(script.orgId),
                },
                {
                  header: 'Timeout',
                  align: 'right',
                  width: 110,
                  cell: ({ timeoutSeconds }) => formatDuration(timeoutSeconds * 1000),
                },
                { header: 'Changed', width: 110, cell: ({ updatedAt }) => <When at={updatedAt} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Page>
  );
}
