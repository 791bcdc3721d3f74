import { Group, Select, Stack } from '@mantine/core';
import { IconPrinter } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { CSSProperties, ReactNode } from 'react';
import { apiQuery } from '../../api/index.ts';
import { choicesOf, useFirstOrganization, useOrganizations } from '../../directory.ts';
import { useMe } from '../../session.ts';
import { Action, Empty, Loaded, useNow } from '../../ui/index.ts';
import { Sections } from './month-report.tsx';
import { ReportsFrame } from './reports-frame.tsx';
import { monthsSince, monthText, timeIn } from './report-text.ts';
import styles from './report.module.css';

const route = getRouteApi('/signed-in/reports');

/** A month of a customer, as a page that prints well. */
export function ReportsPage() {
  const orgId = useFirstOrganization();
  const now = new Date(useNow());
  const organization = useOrganizations().find(({ id }) => id === orgId);
  const { month: chosen } = route.useSearch();
  const months = monthsSince(
    organization === undefined ? now : new Date(organization.createdAt),
    now,
    chosen,
  );
  // The month that has ended last is the one that people hand out.
  const month = chosen ?? months[1] ?? months[0] ?? '';
  const choices = <Choices orgId={orgId} month={month} months={months} />;
  if (orgId === undefined) {
    return (
      <ReportsFrame title="Reports" description="A month of a customer in figures, to print or to send.">
        {choices}
        <Empty title="Choose a customer">A report is about one organization.</Empty>
      </ReportsFrame>
    );
  }
  return <Report orgId={orgId} month={month} choices={choices} />;
}

function Choices({ orgId, month, months }: { orgId: string | undefined; month: string; months: string[] }) {
  const me = useMe();
  const organizations = useOrganizations();
  const navigate = route.useNavigate();
  return (
    <Group align="flex-end" className="muster-screen-only">
      {me.scope !== 'organization' && (
        <Select
          label="Customer"
          placeholder="Choose one"
          data={choicesOf(organizations)}
          value={orgId ?? null}
          onChange={(org) =>
            void navigate({ search: (previous) => ({ ...previous, org: org ?? undefined, site: undefined }) })
          }
          searchable
          nothingFoundMessage="No such organization"
          limit={200}
        />
      )}
      {orgId !== undefined && (
        <Select
          label="Month"
          data={months.map((value) => ({ value, label: monthText(value) }))}
          value={month}
          onChange={(value) =>
            void navigate({ search: (previous) => ({ ...previous, month: value ?? undefined }) })
          }
          allowDeselect={false}
          searchable
        />
      )}
    </Group>
  );
}

function Report({ orgId, month, choices }: { orgId: string; month: string; choices: ReactNode }) {
  const report = useQuery(apiQuery('GET /reports/month', { query: { orgId, month } }));
  const { data } = report;
  const accent = data?.provider.accentColor ?? 'var(--mantine-color-default-border)';
  // What the browser proposes as the name of the file is the title of the page.
  const title = data === undefined ? 'Reports' : `${data.organization.name}, ${monthText(data.month)}`;
  return (
    <div className={styles['report']} style={{ '--report-accent': accent } as CSSProperties}>
      <ReportsFrame
        title={title}
        {...(data === undefined
          ? {}
          : {
              description: `Monthly report by ${data.provider.name}, made ${timeIn(data.madeAt, data.timezone)}.`,
            })}
        actions={
          <>
            {data?.provider.logoUrl?.startsWith('data:') === true && (
              <img
                className={styles['logo']}
                src={data.provider.logoUrl}
                alt={`Logo of ${data.provider.name}`}
              />
            )}
            <Action
              icon={IconPrinter}
              refusal={data === undefined ? 'The report is not there yet.' : undefined}
              onClick={() => window.print()}
            >
              Print or save as PDF
            </Action>
          </>
        }
      >
        {choices}
        <Loaded query={report} what="Making the report">
          {(whole) => (
            <Stack gap="lg">
              <div className={styles['head']}>
                {whole.isRunning && (
                  <span>
                    The month has not ended: these are the figures until{' '}
                    {timeIn(whole.madeAt, whole.timezone)}.
                  </span>
                )}
              </div>
              <Sections report={whole} />
            </Stack>
          )}
        </Loaded>
      </ReportsFrame>
    </div>
  );
}
