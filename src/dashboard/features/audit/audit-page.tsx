import { Button, Group, Text, TextInput, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDownload } from '@tabler/icons-react';
import { keepPreviousData, useQuery, useMutation } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { call, type AuditPagination, download, type AuditLog } from '../../api/index.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  endsOfDay,
  formatCount,
  Failure,
  saveFile,
  Modal,
  Notice,
  ListPage,
  useAddress,
} from '../../ui/index.ts';
import { AuditFrame } from './audit-frame.tsx';
import { CATEGORIES } from './categories.ts';
import { entryColumns, EntryDrawer } from './entry-table.tsx';

const route = getRouteApi('/signed-in/audit');
const REFRESH_MS = 30_000;
const PAGE_SIZE = '50';
const FIELD = { kind: 'text', width: 150, maxLength: 255 } as const;

/** The audit trail. */
export function AuditPage() {
  const address = useAddress(route.useSearch());
  const { entry, page = 1, q, user, action, resource, category, from, to } = address.search;
  const { orgId } = useScope();
  const [isExporting, exporting] = useDisclosure(false);
  const refusal = useRefusal('audit:export');
  const span = { from: endsOfDay(from).begin, to: endsOfDay(to).end };
  const filters = { user, action, resource, category, ...span, orgId };
  const query = { ...filters, page: String(page), limit: PAGE_SIZE };
  const entries = useQuery({
    queryKey: ['audit entries', query, q],
    queryFn: ({ signal }) =>
      q === undefined
        ? call('GET /audit-logs/logs', { query }, { signal })
        : call('GET /audit-logs/search', { query: { ...query, q } }, { signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const searched =
    q === undefined
      ? undefined
      : 'An export has no free search: empty the search field, and filter by fields.';
  return (
    <ListPage
      frame={AuditFrame}
      title="Audit"
      description="All actions, with their person and time. Entries cannot be changed or removed here."
      actions={
        <Action variant="default" icon={IconDownload} refusal={refusal ?? searched} onClick={exporting.open}>
          Export
        </Action>
      }
      views="audit"
      query={entries}
      noun="entries"
      label="Audit entries"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { ...FIELD, name: 'q', label: 'Search', placeholder: 'Anywhere in an entry', width: 190 },
        { ...FIELD, name: 'user', label: 'Person', placeholder: 'Person' },
        { ...FIELD, name: 'action', label: 'Action', placeholder: 'Action: site.create', maxLength: 100 },
        { ...FIELD, name: 'resource', label: 'Resource', placeholder: 'Resource' },
        { kind: 'choice', name: 'category', label: 'Category', any: 'Any category', options: CATEGORIES },
        {
          kind: 'day',
          name: 'from',
          label: 'From',
          shown: 'From',
          fault: from !== undefined && to !== undefined && from > to && 'Later than the end',
        },
        { kind: 'day', name: 'to', label: 'To', shown: 'To' },
      ]}
      empty={{ title: 'No entries', text: 'What people and programs do appears here.' }}
      noneFound={{
        title: 'No entry matches',
        text: 'The action has to be exact, such as “site.create”; the other fields find parts of words.',
      }}
      columns={entryColumns}
    >
      <EntryDrawer id={entry} onClose={() => address.set({ entry: undefined })} />
      <ExportDialog
        opened={isExporting}
        onClose={exporting.close}
        filter={filters}
        page={entries.data?.pagination}
      />
    </ListPage>
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

/** The server exports no more entries than this. */
const EXPORT_MAX = 10_000;

interface EntryFilter {
  user?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  category?: AuditLog['category'] | undefined;
  orgId?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Asks before it exports, and says what the file will hold: exactly the entries of the list, or the newest of them. */
function ExportDialog({
  opened,
  onClose,
  filter,
  page,
}: {
  opened: boolean;
  onClose: () => void;
  filter: EntryFilter;
  page: AuditPagination | undefined;
}) {
  const save = useMutation({
    mutationFn: async () => {
      const { blob, name } = await download('GET /audit-logs/export', { query: filter });
      saveFile(name ?? 'audit.csv', blob);
    },
    onSuccess: onClose,
  });
  const total = page?.total;
  return (
    <Modal opened={opened} onClose={onClose} title="Export as CSV" centered>
      <Stack>
        <Text size="sm">
          {total === undefined
            ? 'The file will hold the entries that match the filters of the list, newest first.'
            : `The file will hold ${page?.totalIsMinimum === true ? 'more than ' : ''}${formatCount(total)} ${total === 1 ? 'entry' : 'entries'}: those that match the filters of the list, newest first.`}{' '}
          The export itself is written to the audit trail.
        </Text>
        {total !== undefined && (total > EXPORT_MAX || page?.totalIsMinimum === true) && (
          <Notice tone="warning" title="Not all of them fit">
            An export holds the newest {formatCount(EXPORT_MAX)} entries. For older ones, export one span of
            time after the other.
          </Notice>
        )}
        {save.error !== null && <Failure error={save.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button loading={save.isPending} onClick={() => save.mutate()}>
            Export
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
