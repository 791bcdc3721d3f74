import { Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type CloudConnection } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  Loaded,
  PagedTable,
  StateBadge,
  useNow,
  When,
} from '../../../ui/index.ts';
import { CloudFrame } from '../parts/cloud-frame.tsx';
import { useCloudConfigs } from '../parts/lists.ts';
import { ChangeConnectionDialog } from './change-connection-dialog.tsx';
import { ConnectDialog, goToConsent } from './connect-dialog.tsx';
import { ConsentOutcome } from './consent-outcome.tsx';

const route = getRouteApi('/signed-in/cloud-backup/connections');

/** Directories of Microsoft 365 that Muster has access to. */
export function CloudConnectionsPage() {
  const { page, connected, c2c_error: fault } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('backup:write');
  const [isConnecting, setConnecting] = useState(false);
  const [changed, setChanged] = useState<CloudConnection>();
  const connections = useQuery({
    ...apiQuery('GET /c2c/connections', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const connect = (
    <Action
      refusal={write}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setConnecting(true)}
    >
      Connect a directory
    </Action>
  );
  return (
    <CloudFrame
      title="Cloud connections"
      description="Access to directories of Microsoft 365. Changes need two-factor authentication."
      actions={connect}
    >
      <ConsentOutcome
        connected={connected}
        fault={fault}
        onClose={() =>
          void navigate({
            search: (previous) => ({ ...previous, connected: undefined, c2c_error: undefined }),
            replace: true,
          })
        }
      />
      <Loaded query={connections} what="Reading connections">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No directory is connected" action={connect}>
              With a connection, Muster backs up mail, calendars, contacts and OneDrive of the users of a
              directory. Google Workspace cannot be backed up yet.
            </Empty>
          ) : (
            <PagedTable
              label="Cloud connections"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  width: 190,
                  cell: ({ displayName, orgId: owner }) => (
                    <>
                      {displayName}
                      <Text size="xs" c="dimmed">
                        {names.organization(owner)}
                      </Text>
                    </>
                  ),
                },
                {
                  header: 'Directory and app',
                  cell: ({ tenantId, authMethod, clientId }) => (
                    <>
                      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                        {tenantId}
                      </Text>
                      <Text size="xs" c="dimmed">
                        {authMethod === 'platform_app'
                          ? 'The app of this server'
                          : `Own app ${clientId ?? ''}`}
                      </Text>
                    </>
                  ),
                },
                { header: 'State', cell: (connection) => <ConnectionState connection={connection} /> },
                {
                  header: 'Last backup',
                  width: 125,
                  cell: ({ lastSyncAt }) => <When at={lastSyncAt} />,
                },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: (connection) => (
                    <ConnectionActions connection={connection} onChange={() => setChanged(connection)} />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isConnecting && <ConnectDialog onClose={() => setConnecting(false)} />}
      {changed !== undefined && (
        <ChangeConnectionDialog connection={changed} onClose={() => setChanged(undefined)} />
      )}
    </CloudFrame>
  );
}

function ConnectionState({ connection: { status, error, throttledUntil } }: { connection: CloudConnection }) {
  const now = useNow();
  const isThrottled = throttledUntil !== null && Date.parse(throttledUntil) > now;
  return (
    <Stack gap={2} align="flex-start">
      {status === 'active' ? (
        <StateBadge tone="good" label="Active" />
      ) : (
        <StateBadge tone="bad" label="Refused" title="Microsoft has refused the app last time." />
      )}
      {error !== null && (
        <Text size="xs" c="dimmed" maw={320}>
          {error.message}
        </Text>
      )}
      {isThrottled && (
        <Text size="xs" c="dimmed">
          Microsoft asks to wait: <When at={throttledUntil} />.
        </Text>
      )}
    </Stack>
  );
}

function ConnectionActions({ connection, onChange }: { connection: CloudConnection; onChange: () => void }) {
  const { id, orgId, displayName, authMethod, status } = connection;
  const write = useRefusal('backup:write');
  const execute = useRefusal('backup:execute');
  const deleting = useRefusal('backup:delete');
  const configs = useCloudConfigs(orgId);
  const used = configs.data?.data.filter(({ connectionId }) => connectionId === id) ?? [];
  const refreshes = ['GET /c2c/connections'] as const;
  const test = useApiChange('POST /c2c/connections/{id}/test', { refreshes });
  const remove = useApiChange('DELETE /c2c/connections/{id}', { refreshes });
  const again = useMutation({ mutationFn: () => goToConsent(orgId, displayName) });
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  const failure = test.error ?? again.error;
  const isUsed =
    used.length === 0
      ? undefined
      : `Configurations use it: ${used.map(({ name }) => name).join(', ')}. Delete them first.`;
  return (
    <Stack gap={2} align="flex-end">
      <Group gap={2} justify="flex-end" wrap="nowrap">
        <Action
          {...button}
          refusal={execute}
          loading={test.isPending}
          onClick={() => test.mutate({ params: { id } })}
        >
          Test
        </Action>
        {authMethod === 'platform_app' && status === 'failing' && (
          <Action {...button} refusal={write} loading={again.isPending} onClick={() => again.mutate()}>
            Consent again
          </Action>
        )}
        <Action {...button} refusal={write} onClick={onChange}>
          Change
        </Action>
        <ConfirmAction
          {...button}
          refusal={deleting ?? isUsed}
          title={`Disconnect “${displayName}”`}
          question="Muster forgets its access to the directory. What the app may do there ends only when an administrator removes it at Microsoft."
          confirm="Disconnect"
          run={() => remove.mutateAsync({ params: { id } })}
        >
          Disconnect
        </ConfirmAction>
      </Group>
      <Text size="xs" role="status" {...(failure === null ? {} : { c: 'red' })}>
        {failure !== null
          ? failure.message
          : test.data === undefined
            ? ''
            : test.data.status === 'success'
              ? 'Microsoft answers.'
              : 'Microsoft refuses: see the state.'}
      </Text>
    </Stack>
  );
}
