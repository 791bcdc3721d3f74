import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { ConfirmAction, Loaded, PagedTable, StateBadge, When } from '../../ui/index.ts';

const refreshes = ['GET /auth/sessions'] as const;

export function Sessions() {
  const sessions = useQuery(apiQuery('GET /auth/sessions', { query: { limit: '100' } }));
  const end = useApiChange('DELETE /auth/sessions/{id}', { refreshes });
  const endOthers = useApiChange('DELETE /auth/sessions', { refreshes });
  return (
    <Loaded query={sessions} what="Reading your sessions">
      {({ data }) => (
        <Stack gap="sm">
          <PagedTable
            label="Sessions"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                header: 'Program',
                isName: true,
                cell: ({ userAgent, current }) => (
                  <Group gap="xs">
                    <Text size="sm">{programOf(userAgent)}</Text>
                    {current && <StateBadge tone="good" label="This one" />}
                  </Group>
                ),
              },
              { header: 'Address', cell: ({ ipAddress }) => ipAddress ?? 'Unknown' },
              { header: 'Started', cell: ({ createdAt }) => <When at={createdAt} /> },
              { header: 'Last used', cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
              {
                header: 'Actions',
                align: 'right',
                cell: ({ id, current }) =>
                  !current && (
                    <ConfirmAction
                      size="compact-xs"
                      variant="subtle"
                      title="End this session"
                      question="The person or program that uses it has to sign in again."
                      confirm="End"
                      run={() => end.mutateAsync({ params: { id } })}
                    >
                      End
                    </ConfirmAction>
                  ),
              },
            ]}
          />
          {data.length > 1 && (
            <Group>
              <ConfirmAction
                variant="default"
                title="End all other sessions"
                question="Everywhere else, you have to sign in again."
                confirm="End them"
                run={() => endOthers.mutateAsync({})}
              >
                End all other sessions
              </ConfirmAction>
            </Group>
          )}
        </Stack>
      )}
    </Loaded>
  );
}

const BROWSERS = ['Firefox', 'Edg', 'OPR', 'Chrome', 'Safari'];
const SYSTEMS = ['Windows', 'Android', 'iPhone', 'iPad', 'Mac OS', 'Linux'];

/** "Chrome on Linux", as far as the browser says it. */
function programOf(userAgent: string | null): string {
  if (userAgent === null) return 'Unknown';
  const browser = BROWSERS.find((name) => userAgent.includes(name));
  if (browser === undefined) return userAgent.slice(0, 60);
  const system = SYSTEMS.find((name) => userAgent.includes(name));
  const name = browser === 'Edg' ? 'Edge' : browser === 'OPR' ? 'Opera' : browser;
  return system === undefined ? name : `${name} on ${system}`;
}
