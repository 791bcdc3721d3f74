import { Button, Group, Paper, SegmentedControl, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { IconPrinter } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { apiQuery, type AuditLog } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { formatCount, formatTime, formatWord, Loaded, PagedTable, useNow, When } from '../../ui/index.ts';
import { DayRange } from './audit-page.tsx';
import { AuditFrame } from './audit-frame.tsx';
import { EntryTable } from './entry-table.tsx';

const route = getRouteApi('/signed-in/audit/reports');
const REPORTS = [
  { value: 'activity', label: 'User activity' },
  { value: 'security', label: 'Security events' },
  { value: 'compliance', label: 'Compliance' },
] as const;

/** The organization and the time that a report covers. */
interface Range {
  orgId: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Summaries of the audit trail for a span of time. */
export function ReportsPage() {
  const { report = 'activity', from, to } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  const { orgId } = scopeQuery(useScope());
  const range = { orgId, from, to };
  return (
    <AuditFrame
      title="Audit reports"
      description={
        <span className="muster-screen-only">
          What happened in a span of time. Without days, in all time that is kept.
        </span>
      }
      actions={
        <Button
          variant="default"
          leftSection={<IconPrinter size={14} aria-hidden />}
          onClick={() => window.print()}
        >
          Print
        </Button>
      }
    >
      <Printed report={report} range={range} />
      <Group align="flex-end" className="muster-screen-only">
        <SegmentedControl
          aria-label="Report"
          data={[...REPORTS]}
          value={report}
          onChange={(value) => change({ report: REPORTS.find((known) => known.value === value)?.value })}
        />
        <DayRange from={from} to={to} onChange={change} />
      </Group>
      {report === 'activity' && <UserActivity range={range} />}
      {report === 'security' && <SecurityEvents range={range} />}
      {report === 'compliance' && <Compliance range={range} />}
    </AuditFrame>
  );
}

/** On paper, what the controls say on the screen. */
function Printed({ report, range: { orgId, from, to } }: { report: string; range: Range }) {
  const names = useNames();
  const now = useNow();
  const parts = [
    REPORTS.find(({ value }) => value === report)?.label ?? '',
    orgId === undefined ? 'All organizations' : names.organization(orgId),
    from === undefined && to === undefined
      ? 'All time that is kept'
      : [from !== undefined && `from ${from}`, to !== undefined && `to ${to}`].filter(Boolean).join(' '),
    `Printed ${formatTime(new Date(now))}`,
  ];
  return (
    <Text size="sm" className="muster-print-only">
      {parts.join(' · ')}
    </Text>
  );
}

function UserActivity({ range }: { range: Range }) {
  const report = useQuery(apiQuery('GET /audit-logs/reports/user-activity', { query: range }));
  const stats = useQuery(apiQuery('GET /audit-logs/stats', { query: range }));
  return (
    <Loaded query={report} what="Making the report">
      {({ totalUsers, totalEvents, topUsers, recentActivity }) => (
        <>
          <Figures
            figures={[
              ['People', totalUsers],
              ['Events', totalEvents],
              ...(stats.data?.byCategory ?? []).map(
                ({ category, count }) => [formatWord(category), count] satisfies [string, number],
              ),
            ]}
          />
          <Section title="Most active people">
            <PagedTable
              label="Most active people"
              rows={topUsers}
              keyOf={({ userId }) => userId}
              columns={[
                {
                  header: 'Person',
                  isName: true,
                  cell: (user) => user.userName ?? user.userEmail ?? 'No longer known',
                },
                { header: 'E-mail', cell: ({ userEmail }) => userEmail ?? '–' },
                { header: 'Events', align: 'right', cell: ({ actionCount }) => formatCount(actionCount) },
                { header: 'Last', width: 130, cell: ({ lastActiveAt }) => <When at={lastActiveAt} /> },
              ]}
            />
          </Section>
          <Recent entries={recentActivity} />
        </>
      )}
    </Loaded>
  );
}

function SecurityEvents({ range }: { range: Range }) {
  const report = useQuery(apiQuery('GET /audit-logs/reports/security-events', { query: range }));
  return (
    <Loaded query={report} what="Making the report">
      {({ totalEvents, loginAttempts, failedLogins, permissionChanges, byAction, recentEvents }) => (
        <>
          <Figures
            figures={[
              ['Security events', totalEvents],
              ['Sign-ins tried', loginAttempts],
              ['Sign-ins failed', failedLogins],
              ['Permissions changed', permissionChanges],
            ]}
          />
          <ByAction rows={byAction} />
          <Recent entries={recentEvents} />
        </>
      )}
    </Loaded>
  );
}

function Compliance({ range }: { range: Range }) {
  const report = useQuery(apiQuery('GET /audit-logs/reports/compliance', { query: range }));
  return (
    <Loaded query={report} what="Making the report">
      {({ totalEvents, dataAccess, dataChanges, exports, byAction, recentEvents }) => (
        <>
          <Figures
            figures={[
              ['Events', totalEvents],
              ['Data read', dataAccess],
              ['Data changed', dataChanges],
              ['Exports', exports],
            ]}
          />
          <ByAction rows={byAction} />
          <Recent entries={recentEvents} />
        </>
      )}
    </Loaded>
  );
}

function Figures({ figures }: { figures: readonly [name: string, count: number][] }) {
  return (
    <SimpleGrid cols={{ base: 2, sm: 4, lg: 6 }} spacing="xs">
      {figures.map(([name, count]) => (
        <Paper key={name} withBorder p="xs">
          <Text size="xs">{name}</Text>
          <Text size="xl" fw={600}>
            {formatCount(count)}
          </Text>
        </Paper>
      ))}
    </SimpleGrid>
  );
}

function ByAction({ rows }: { rows: readonly { action: string; count: number }[] }) {
  if (rows.length === 0) return null;
  return (
    <Section title="By action">
      <PagedTable
        label="Events by action"
        rows={rows}
        keyOf={({ action }) => action}
        columns={[
          { header: 'Action', isName: true, cell: ({ action }) => action },
          { header: 'Events', align: 'right', width: 120, cell: ({ count }) => formatCount(count) },
        ]}
      />
    </Section>
  );
}

function Recent({ entries }: { entries: readonly AuditLog[] }) {
  return (
    <Section title="Newest entries">
      {entries.length === 0 ? (
        <Text size="sm">Nothing of this kind happened in this time.</Text>
      ) : (
        <EntryTable entries={entries} label="Newest entries" />
      )}
    </Section>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap={4} component="section" aria-label={title}>
      <Title order={2} size="h5">
        {title}
      </Title>
      {children}
    </Stack>
  );
}
