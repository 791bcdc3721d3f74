import { Checkbox, Group, Text, TextInput, Tooltip } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconCheck, IconChecks, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Alert } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import {
  Action,
  ChipChoice,
  Empty,
  Failure,
  formatWord,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
  When,
} from '../../ui/index.ts';
import { AlertSubject, SeverityBadge } from './alert-parts.tsx';

const route = getRouteApi('/signed-in/alerts');
const STATUSES = ['active', 'acknowledged', 'resolved'] as const;
const SEVERITIES = ['critical', 'high', 'medium', 'low', 'info'] as const;
const REFRESH_MS = 15_000;
const OPEN = ['active', 'acknowledged'] as const;

/** What Muster has noticed by itself. Alerts close themselves when their cause is gone. */
export function AlertsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const refusal = useRefusal('alerts:write');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const change = (next: Partial<typeof search>) => {
    setChosen(new Set());
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  };
  const searchFor = useDebouncedCallback((q: string) => change({ q: q === '' ? undefined : q }), 300);
  const status = search.status ?? OPEN;
  const alerts = useQuery({
    ...apiQuery('GET /alerts', {
      query: {
        status: status.join(','),
        severity: search.severity?.join(','),
        search: search.q,
        page: String(search.page ?? 1),
        orgId,
      },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const bulk = useApiChange('POST /alerts/bulk', { refreshes: ['GET /alerts', 'GET /alerts/summary'] });
  const act = (action: 'acknowledge' | 'resolve') =>
    bulk.mutate({ body: { alertIds: [...chosen], action } }, { onSuccess: () => setChosen(new Set()) });
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const noneChosen = chosen.size === 0 ? 'Select alerts in the list first.' : undefined;

  return (
    <Page
      title="Alerts"
      actions={
        <>
          <Action
            variant="default"
            refusal={refusal ?? noneChosen}
            leftSection={<IconCheck size={14} aria-hidden />}
            onClick={() => act('acknowledge')}
          >
            Acknowledge
          </Action>
          <Action
            variant="default"
            refusal={refusal ?? noneChosen}
            leftSection={<IconChecks size={14} aria-hidden />}
            onClick={() => act('resolve')}
          >
            Resolve
          </Action>
        </>
      }
    >
      <Group gap="sm">
        <TextInput
          w={240}
          placeholder="Search titles and messages"
          aria-label="Search alerts"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
        <ChipChoice
          label="Status"
          values={STATUSES}
          chosen={status}
          onChange={(next) => change({ status: next })}
        />
        <ChipChoice
          label="Severity"
          values={SEVERITIES}
          chosen={search.severity ?? []}
          onChange={(next) => change({ severity: next.length === 0 ? undefined : next })}
        />
      </Group>
      {bulk.error !== null && <Failure error={bulk.error} />}
      <Loaded query={alerts} what="Reading alerts">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No alerts">
              Nothing that matches needs attention. Muster raises an alert when a device stays offline, a disk
              fills up, a backup fails, or an upgrade is rolled back.
            </Empty>
          ) : (
            <PagedTable
              label="Alerts"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                {
                  header: 'Select',
                  width: 60,
                  cell: (alert) => (
                    <Checkbox
                      aria-label={`Select "${alert.title}"`}
                      checked={chosen.has(alert.id)}
                      onChange={() => toggle(alert.id)}
                    />
                  ),
                },
                {
                  header: 'Severity',
                  width: 110,
                  cell: ({ severity }) => <SeverityBadge severity={severity} />,
                },
                {
                  header: 'Alert',
                  isName: true,
                  cell: (alert) => (
                    <>
                      <AlertSubject alert={alert} />
                      <Text size="xs" c="dimmed">
                        {alert.message}
                      </Text>
                    </>
                  ),
                },
                { header: 'Organization', cell: ({ orgId: id }) => names.organization(id) },
                { header: 'Status', width: 150, cell: (alert) => <AlertStatus alert={alert} /> },
                { header: 'Raised', width: 140, cell: (alert) => <Raised alert={alert} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Page>
  );
}

/** When it began, and, where the cause has come again, how often and when last. */
function Raised({ alert: { raisedAt, lastAt, count } }: { alert: Alert }) {
  return (
    <>
      <When at={raisedAt} />
      {count > 1 && (
        <Text size="xs" c="dimmed">
          {count} times, last <When at={lastAt} />
        </Text>
      )}
    </>
  );
}

function AlertStatus({ alert }: { alert: Alert }) {
  const tone = { active: 'warning', acknowledged: 'info', resolved: 'good' } as const;
  const badge = <StateBadge tone={tone[alert.status]} label={formatWord(alert.status)} />;
  const why = alert.resolution ?? alert.note;
  return why === null ? badge : <Tooltip label={why}>{badge}</Tooltip>;
}
