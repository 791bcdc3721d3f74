import { Pill, Text } from '@mantine/core';
import { IconCheck, IconChecks } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery, useApiChange, useList, type Alert } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Failure,
  ListPage,
  OpenName,
  TwoLines,
  useAddress,
  useSelection,
  When,
} from '../../ui/index.ts';
import { alertKindText } from '../alert-words/index.ts';
import { AlertDrawer } from './alert-drawer.tsx';
import { AlertStatus, SeverityBadge } from './alert-parts.tsx';
import { AlertsFrame } from './alerts-frame.tsx';

const route = getRouteApi('/signed-in/alerts');
const OPEN = ['active', 'acknowledged'] as const;
const REFRESH_MS = 15_000;

/** The alerts of Muster. They close themselves when their cause is gone. */
export function AlertsPage() {
  const address = useAddress(route.useSearch());
  const { q, status = OPEN, severity, rule, kind, page = 1, alert: opened } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const refusal = useRefusal('alerts:write');
  const { chosen, clear, column } = useSelection(address);
  const alerts = useList(
    'GET /alerts',
    {
      query: {
        status: status.join(','),
        severity: severity?.join(','),
        search: q,
        ruleId: rule,
        kind,
        page: String(page),
        orgId,
      },
    },
    REFRESH_MS,
  );
  const bulk = useApiChange('POST /alerts/bulk', { refreshes: ['GET /alerts', 'GET /alerts/summary'] });
  const act = (action: 'acknowledge' | 'resolve') =>
    bulk.mutate({ body: { alertIds: [...chosen], action } }, { onSuccess: clear });
  const noneChosen = chosen.size === 0 ? 'Select alerts in the list first.' : undefined;
  return (
    <ListPage
      frame={AlertsFrame}
      title="Alerts"
      actions={
        <>
          <Action
            variant="default"
            refusal={refusal ?? noneChosen}
            icon={IconCheck}
            onClick={() => act('acknowledge')}
          >
            Acknowledge
          </Action>
          <Action
            variant="default"
            refusal={refusal ?? noneChosen}
            icon={IconChecks}
            onClick={() => act('resolve')}
          >
            Resolve
          </Action>
        </>
      }
      notice={bulk.error !== null && <Failure error={bulk.error} />}
      views="alerts"
      query={alerts}
      noun="alerts"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { kind: 'text', name: 'q', label: 'Search alerts', placeholder: 'Search titles and messages' },
        {
          kind: 'chips',
          name: 'status',
          label: 'Status',
          options: ['active', 'acknowledged', 'resolved'],
          atFirst: OPEN,
        },
        {
          kind: 'chips',
          name: 'severity',
          label: 'Severity',
          options: ['critical', 'high', 'medium', 'low', 'info'],
        },
        {
          kind: 'own',
          name: 'rule',
          control: rule !== undefined && (
            <RuleFilter key={rule} id={rule} onRemove={() => address.narrow({ rule: undefined })} />
          ),
        },
        {
          kind: 'own',
          name: 'kind',
          control: kind !== undefined && (
            <OnlyOf all="Alerts of all kinds" onRemove={() => address.narrow({ kind: undefined })}>
              {alertKindText(kind)}
            </OnlyOf>
          ),
        },
      ]}
      empty={{
        title: 'No alerts',
        text: 'Nothing needs attention. Rules say when Muster raises an alert, such as when a device stays offline, a disk fills up or a backup fails.',
      }}
      columns={[
        column<Alert>(({ title }) => `"${title}"`),
        { header: 'Severity', width: 110, cell: (alert) => <SeverityBadge severity={alert.severity} /> },
        {
          header: 'Alert',
          isName: true,
          cell: (alert) => (
            <TwoLines below={alert.message}>
              <OpenName onOpen={() => address.set({ alert: alert.id })}>{alert.title}</OpenName>
            </TwoLines>
          ),
        },
        { header: 'Organization', cell: ({ orgId: id }) => names.organization(id) },
        { header: 'Status', width: 150, cell: (alert) => <AlertStatus alert={alert} /> },
        { header: 'Raised', width: 140, cell: (alert) => <Raised alert={alert} /> },
      ]}
    >
      <AlertDrawer opened={opened} onClose={() => address.set({ alert: undefined })} />
    </ListPage>
  );
}

/** Says that only the alerts of one rule are listed. */
function RuleFilter({ id, onRemove }: { id: string; onRemove: () => void }) {
  const rule = useQuery(apiQuery('GET /alert-rules/{id}', { params: { id } }));
  const name = rule.data === undefined ? 'Of one rule' : `Of the rule “${rule.data.name}”`;
  return (
    <OnlyOf all="Alerts of all rules" onRemove={onRemove}>
      {name}
    </OnlyOf>
  );
}

/** A condition that another page has set. @param all  what is listed without it */
const OnlyOf = ({ all, onRemove, children }: { all: string; onRemove: () => void; children: string }) => (
  <Pill
    size="md"
    withRemoveButton
    onRemove={onRemove}
    removeButtonProps={{ 'aria-label': all, tabIndex: 0, 'aria-hidden': false }}
  >
    {children}
  </Pill>
);

/** When it began, and, if the cause has come again, how often and when last. */
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
