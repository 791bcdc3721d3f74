import { ActionIcon, Card, Group, List, Stack, Text, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { z } from 'zod';
import { ApiError, call, type ConditionGroup } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { scopeQuery, useScope, type Scope } from '../../routing.ts';
import { useMe, useRefusal } from '../../session.ts';
import { DeviceStatusBadge, Failure, formatCount, PagedTable, When, TextLink } from '../../ui/index.ts';
import { isComplete, type Conditions } from './conditions.ts';

const WAIT_MS = 400;
const SAMPLE = 10;

/** How many devices match, and some of them, as the conditions are now. */
export function PreviewPanel({ conditions }: { conditions: Conditions }) {
  const mayRead = useRefusal('devices:read');
  const scope = useScope();
  const within = scopeQuery(scope);
  const [asked] = useDebouncedValue(JSON.stringify(conditions), WAIT_MS);
  const isReady = isComplete(conditions);
  const preview = useQuery({
    queryKey: ['POST /filters/preview', asked, within],
    queryFn: ({ signal }) =>
      call(
        'POST /filters/preview',
        { body: { conditions: toApi(conditions), limit: SAMPLE, ...within } },
        { signal },
      ),
    // Asked once the conditions have rested: until then, `asked` names older ones.
    enabled: mayRead === undefined && isReady && asked === JSON.stringify(conditions),
    placeholderData: keepPreviousData,
    // Each count is written to the audit trail, so counting starts only on request.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const found = preview.data?.data;
  return (
    <Card withBorder padding="sm">
      <Stack gap="xs">
        <Group justify="space-between">
          <Title order={2} size="h5">
            Matching devices
          </Title>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label="Count again"
            loading={preview.isFetching}
            disabled={mayRead !== undefined || !isReady}
            onClick={() => void preview.refetch()}
          >
            <IconRefresh size={14} />
          </ActionIcon>
        </Group>
        {mayRead !== undefined ? (
          <Text size="sm">{mayRead}</Text>
        ) : !isReady ? (
          <Text size="sm">Fill in each condition to see which devices match.</Text>
        ) : preview.error !== null ? (
          <Refused error={preview.error} retry={() => void preview.refetch()} />
        ) : found === undefined ? (
          <Text size="sm">Counting …</Text>
        ) : (
          <>
            <Text fw={600} size="lg" component="output" aria-live="polite">
              {found.totalCount === 1 ? '1 device' : `${formatCount(found.totalCount)} devices`}
            </Text>
            <Counted scope={scope} />
            {found.totalCount === 0 ? (
              <Text size="sm">No device matches. Ask below which condition removes most.</Text>
            ) : (
              <PagedTable
                label="Some of the matching devices"
                rows={found.devices}
                keyOf={({ id }) => id}
                columns={[
                  {
                    header: 'Device',
                    isName: true,
                    cell: ({ id, hostname, displayName }) => (
                      <TextLink inherit to="/devices/$deviceId" params={{ deviceId: id }}>
                        {displayName ?? hostname}
                      </TextLink>
                    ),
                  },
                  { header: 'Status', cell: ({ status }) => <DeviceStatusBadge status={status} /> },
                  {
                    header: 'Last seen',
                    cell: ({ lastSeenAt }) => (lastSeenAt === null ? 'Never' : <When at={lastSeenAt} />),
                  },
                ]}
              />
            )}
            {found.totalCount > found.devices.length && (
              <Text size="xs">The first {found.devices.length}, by host name.</Text>
            )}
          </>
        )}
      </Stack>
    </Card>
  );
}

/** Where the devices are counted: as the scope in the header says. */
function Counted({ scope: { orgId, siteId } }: { scope: Scope }) {
  const me = useMe();
  const names = useNames();
  if (siteId !== undefined) return <Text size="xs">At the site {names.site(siteId)}.</Text>;
  if (me.scope === 'organization') return null;
  return (
    <Text size="xs">
      {orgId === undefined ? 'In all organizations that you can see.' : `In ${names.organization(orgId)}.`}
    </Text>
  );
}

/** The rules that conditions break, each with its place; anything else as everywhere. */
export function Refused({ error, retry }: { error: Error; retry?: () => void }) {
  const faults = error instanceof ApiError ? Object.entries(error.fields) : [];
  if (faults.length === 0) return <Failure error={error} retry={retry} />;
  return (
    <Stack gap={4} role="alert">
      <Text size="sm" fw={600}>
        These conditions cannot be used as they are:
      </Text>
      <List size="sm">
        {faults.slice(0, 10).map(([path, message]) => (
          <List.Item key={path}>
            {placeIn(path)}: {message}
          </List.Item>
        ))}
      </List>
    </Stack>
  );
}

/** "body.conditions.conditions.0.conditions.2.value" → "Condition 1.3, value". */
function placeIn(path: string): string {
  const steps = path.split('.').filter((step) => step !== 'body' && step !== 'conditions');
  const numbers = steps.filter((step) => /^\d+$/.test(step)).map((step) => Number(step) + 1);
  const words = steps.filter((step) => !/^\d+$/.test(step));
  return [numbers.length === 0 ? 'All conditions' : `Condition ${numbers.join('.')}`, ...words].join(', ');
}

const AsSent = z.custom<ConditionGroup>();
/** The types of routes cannot express that a value may be anything, so this is for the compiler only. */
export const toApi = (conditions: Conditions): ConditionGroup => AsSent.parse(conditions);
