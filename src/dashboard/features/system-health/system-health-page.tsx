import { Group, Text, Title } from '@mantine/core';
import { useQuery, queryOptions } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useList, ApiError } from '../../api/index.ts';
import { useMe } from '../../session.ts';
import {
  Failure,
  formatDuration,
  formatWord,
  Loaded,
  Loading,
  Page,
  PagedTable,
  StateBadge,
  When,
} from '../../ui/index.ts';
import { z } from 'zod';

const REFRESH_MS = 30_000;

/** Whether the server can do its work, and which part of it cannot. */
export function SystemHealthPage() {
  const readiness = useQuery(readinessQuery);
  const health = useQuery({ ...apiQuery('GET /health'), refetchInterval: REFRESH_MS });
  const { scope } = useMe();
  return (
    <Page
      title="System health"
      description={
        health.data === undefined
          ? 'The state of this server.'
          : `Muster ${health.data.version}, running for ${formatDuration(health.data.uptime * 1000)}.`
      }
    >
      {readiness.error !== null && <Failure error={readiness.error} retry={() => void readiness.refetch()} />}
      {readiness.data === undefined
        ? readiness.error === null && <Loading what="Asking the server" />
        : // Earlier checks of a server that is unreachable now would mislead.
          readiness.error === null && <Checks readiness={readiness.data} at={readiness.dataUpdatedAt} />}
      {scope === 'system' && <Partners />}
    </Page>
  );
}

const STATES = {
  ok: { tone: 'good', label: 'Works' },
  failed: { tone: 'bad', label: 'Failed' },
  read_only: { tone: 'bad', label: 'Takes no writes' },
  unavailable: { tone: 'bad', label: 'Not reachable' },
  not_configured: { tone: 'neutral', label: 'Not configured' },
} as const;

const PARTS: Record<string, { name: string; text: string }> = {
  database: { name: 'Database', text: 'PostgreSQL, where everything is kept.' },
  redis: { name: 'Redis', text: 'Connects several servers with each other. One server does without it.' },
  migrations: { name: 'Schema', text: 'Whether the tables of the database are those of this release.' },
  isolation: { name: 'Isolation', text: 'Whether the database itself keeps the customers apart.' },
  jobs: {
    name: 'Jobs',
    text: 'Schedules, mails, webhooks and clearing up. Requests are answered without them.',
  },
};

function Checks({ readiness, at }: { readiness: Readiness; at: number }) {
  const isReady = readiness.status === 'ready';
  return (
    <>
      <Group gap="xs">
        <StateBadge
          tone={isReady ? 'good' : 'bad'}
          label={isReady ? 'The server is ready' : 'The server is not ready'}
        />
        <Text size="sm" component="div">
          {isReady ? 'Everything that it needs works.' : 'Something that it needs does not work; see below.'}{' '}
          Asked <When at={new Date(at).toISOString()} />, and again every ten seconds.
        </Text>
      </Group>
      <PagedTable
        label="What the server needs"
        rows={Object.entries(readiness.checks)}
        keyOf={([name]) => name}
        columns={[
          {
            header: 'Part',
            isName: true,
            width: 180,
            cell: ([name]) => PARTS[name]?.name ?? formatWord(name),
          },
          { header: 'State', width: 170, cell: ([, state]) => <StateBadge {...STATES[state]} /> },
          { header: 'What it is', cell: ([name]) => PARTS[name]?.text ?? '–' },
        ]}
      />
    </>
  );
}

/** The providers on this server, for those who run it. */
function Partners() {
  const [page, setPage] = useState(1);
  const partners = useList('GET /orgs/partners', { query: { page: String(page) } });
  return (
    <>
      <Title order={2} size="h5">
        Providers
      </Title>
      <Loaded query={partners} what="Reading providers">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Text size="sm">No provider uses this server yet.</Text>
          ) : (
            <PagedTable
              label="Providers"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={setPage}
              columns={[
                { header: 'Name', isName: true, cell: ({ name }) => name },
                { header: 'Short name', cell: ({ slug }) => slug },
                { header: 'Plan', cell: ({ plan }) => formatWord(plan) },
                {
                  header: 'Status',
                  cell: ({ status }) => (
                    <StateBadge tone={status === 'active' ? 'good' : 'neutral'} label={formatWord(status)} />
                  ),
                },
                {
                  header: 'Most organizations',
                  align: 'right',
                  cell: (row) => row.maxOrganizations ?? 'No limit',
                },
                {
                  header: 'Device limit',
                  align: 'right',
                  cell: ({ maxDevices }) => maxDevices ?? 'No limit',
                },
                { header: 'Since', width: 120, cell: ({ createdAt }) => <When at={createdAt} /> },
              ]}
            />
          )
        }
      </Loaded>
    </>
  );
}

const Readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.record(z.string(), z.enum(['ok', 'failed', 'read_only', 'unavailable', 'not_configured'])),
});
type Readiness = z.output<typeof Readiness>;

const READINESS_REFRESH_MS = 10_000;

/** A server that is not ready says so with status 503, and names what is missing; this is a result, not a failure. */
const readinessQuery = queryOptions({
  queryKey: ['readiness'],
  queryFn: async ({ signal }): Promise<Readiness> => {
    const response = await fetch('/api/v1/health/ready', { signal }).catch((error: unknown) => {
      if (signal.aborted) throw error;
      throw new ApiError(0, { error: 'The server cannot be reached.', code: 'UNREACHABLE' });
    });
    const body: unknown = await response.json().catch(() => undefined);
    const readiness = Readiness.safeParse(body);
    if (readiness.success) return readiness.data;
    const error = `The server answered with status ${response.status} and no state.`;
    throw new ApiError(response.status, { error, code: 'UNEXPECTED' });
  },
  refetchInterval: READINESS_REFRESH_MS,
});
