import { Button, Group, Select, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconChevronLeft, IconChevronRight, IconDownload, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { call, type AuditPagination } from '../../api/index.ts';
import { useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Action, Empty, endsOfDay, formatCount, formatWord, Loaded, Page } from '../../ui/index.ts';
import { AuditTabs } from './audit-tabs.tsx';
import { CATEGORIES } from './categories.ts';
import { EntryDrawer } from './entry-drawer.tsx';
import { EntryTable } from './entry-table.tsx';
import { ExportDialog } from './export-dialog.tsx';

const route = getRouteApi('/signed-in/audit');
const REFRESH_MS = 30_000;
const PAGE_SIZE = '50';

/** Who did what, and when. */
export function AuditPage() {
  const { entry, page, q, ...filter } = route.useSearch();
  const { org: _org, site: _site, ...fields } = filter;
  const navigate = route.useNavigate();
  const { orgId } = useScope();
  const [isExporting, exporting] = useDisclosure(false);
  const refusal = useRefusal('audit:export');
  const filters = { ...fields, from: endsOfDay(fields.from).begin, to: endsOfDay(fields.to).end, orgId };
  const query = { ...filters, page: String(page ?? 1), limit: PAGE_SIZE };
  const entries = useQuery({
    queryKey: ['audit entries', query, q],
    queryFn: ({ signal }) =>
      q === undefined
        ? call('GET /audit-logs/logs', { query }, { signal })
        : call('GET /audit-logs/search', { query: { ...query, q } }, { signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const isFiltered = [q, ...Object.values(fields)].some((value) => value !== undefined);
  const searched =
    q === undefined
      ? undefined
      : 'An export has no free search: empty the search field, and filter by fields.';
  return (
    <Page
      title="Audit"
      description="Who did what, and when. Nobody can change or remove an entry here."
      actions={
        <Action
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          refusal={refusal ?? searched}
          onClick={exporting.open}
        >
          Export
        </Action>
      }
    >
      <AuditTabs />
      <Filters />
      <Loaded query={entries} what="Reading the audit trail">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title={isFiltered ? 'No entry matches' : 'No entries'}
              action={
                isFiltered && (
                  <Button variant="default" onClick={() => void navigate({ search: {} })}>
                    Remove the filters
                  </Button>
                )
              }
            >
              {isFiltered
                ? 'The action has to be exact, such as “site.create”; the other fields find parts of words.'
                : 'What people and programs do appears here.'}
            </Empty>
          ) : (
            <>
              <EntryTable entries={data} label="Audit entries" />
              <Pages
                pagination={pagination}
                rows={data.length}
                onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              />
            </>
          )
        }
      </Loaded>
      <EntryDrawer
        id={entry}
        onClose={() => void navigate({ search: (previous) => ({ ...previous, entry: undefined }) })}
      />
      <ExportDialog
        opened={isExporting}
        onClose={exporting.close}
        filter={filters}
        page={entries.data?.pagination}
      />
    </Page>
  );
}

const FIELDS = [
  { name: 'user', label: 'Person', placeholder: 'Name or e-mail', width: 125 },
  { name: 'action', label: 'Action', placeholder: 'site.create', width: 125 },
  { name: 'resource', label: 'Resource', placeholder: 'Type or name', width: 125 },
] as const;

/** The filters, which are part of the address. */
function Filters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const typed = useDebouncedCallback(
    (name: 'q' | 'user' | 'action' | 'resource', value: string) =>
      change({ [name]: value.trim() === '' ? undefined : value.trim() }),
    300,
  );
  return (
    <Group gap="sm" align="flex-end" role="search">
      <TextInput
        w={170}
        label="Search"
        placeholder="Anywhere in an entry"
        leftSection={<IconSearch size={14} aria-hidden />}
        maxLength={255}
        defaultValue={search.q ?? ''}
        onChange={(event) => typed('q', event.currentTarget.value)}
      />
      {FIELDS.map(({ name, label, placeholder, width }) => (
        <TextInput
          key={name}
          w={width}
          label={label}
          placeholder={placeholder}
          maxLength={name === 'action' ? 100 : 255}
          defaultValue={search[name] ?? ''}
          onChange={(event) => typed(name, event.currentTarget.value)}
        />
      ))}
      <Select
        w={135}
        label="Category"
        placeholder="Any"
        clearable
        data={CATEGORIES.map((value) => ({ value, label: formatWord(value) }))}
        value={search.category ?? null}
        onChange={(value) => change({ category: value ?? undefined })}
      />
      <DayRange from={search.from} to={search.to} onChange={change} />
    </Group>
  );
}

/** Two days, both included. */
export function DayRange({
  from,
  to,
  onChange,
}: {
  from: string | undefined;
  to: string | undefined;
  onChange: (next: { from?: string | undefined; to?: string | undefined }) => void;
}) {
  const day = (value: string) => (value === '' ? undefined : value);
  const isTwisted = from !== undefined && to !== undefined && from > to;
  return (
    <>
      <TextInput
        type="date"
        w={140}
        label="From"
        value={from ?? ''}
        error={isTwisted && 'Later than the end'}
        onChange={(event) => onChange({ from: day(event.currentTarget.value) })}
      />
      <TextInput
        type="date"
        w={140}
        label="To"
        value={to ?? ''}
        onChange={(event) => onChange({ to: day(event.currentTarget.value) })}
      />
    </>
  );
}

/** Where many entries match, the server counts only the first of them, so there may be more than the total says. */
function Pages({
  pagination: { page, limit, total, totalIsMinimum },
  rows,
  onPage,
}: {
  pagination: AuditPagination;
  rows: number;
  onPage: (page: number) => void;
}) {
  const first = (page - 1) * limit + 1;
  const last = first + rows - 1;
  const hasNext = totalIsMinimum === true || total === undefined ? rows === limit : last < total;
  return (
    <Group justify="space-between" component="nav" aria-label="Pages of entries">
      <Text size="sm" c="dimmed">
        {formatCount(first)} to {formatCount(last)}
        {total !== undefined &&
          ` of ${totalIsMinimum === true ? 'more than ' : ''}${formatCount(Math.max(total, last))}`}
      </Text>
      <Group gap="xs">
        <Button
          size="compact-sm"
          variant="default"
          disabled={page <= 1}
          leftSection={<IconChevronLeft size={14} aria-hidden />}
          onClick={() => onPage(page - 1)}
        >
          Newer
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          disabled={!hasNext}
          rightSection={<IconChevronRight size={14} aria-hidden />}
          onClick={() => onPage(page + 1)}
        >
          Older
        </Button>
      </Group>
    </Group>
  );
}
