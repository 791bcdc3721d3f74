import { Group, Stack, Text } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, call, type BackupDatabaseInstance } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Failure, Loaded, PagedTable, Panel, StateBadge, When } from '../../../ui/index.ts';
import { databasesText, ENGINE_NAMES } from '../parts/database-names.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { SqlDrawer } from '../sql-server/sql-drawer.tsx';

const LIST = 'GET /backup/databases/instances';

/** The servers that devices have named when they were last asked. */
export function Servers({
  deviceId,
  page,
  onPage,
}: {
  deviceId: string | undefined;
  page: number;
  onPage: (page: number) => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const [opened, setOpened] = useState<BackupDatabaseInstance>();
  const servers = useQuery({
    ...apiQuery(LIST, { query: { orgId, deviceId, page: String(page) } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Panel title="Database servers" aside={<LookAgain key={deviceId} deviceId={deviceId} />}>
      <Loaded query={servers} what="Reading database servers">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No database servers are known">
              {deviceId === undefined
                ? 'Choose a device above, and look for those that it runs.'
                : 'The device has named none. Look again when one is running there.'}
            </Empty>
          ) : (
            <PagedTable
              label="Database servers"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={onPage}
              columns={[
                { header: 'Server', isName: true, cell: (server) => <Server server={server} /> },
                { header: 'Device', cell: (server) => <DeviceLink id={server.deviceId} /> },
                {
                  header: 'Databases',
                  cell: ({ databases }) => databasesText(databases.map(({ name }) => name)),
                },
                { header: 'State', cell: (server) => <Problems server={server} /> },
                { header: 'Found', width: 110, cell: (server) => <When at={server.lastDiscoveredAt} /> },
                {
                  header: 'Actions',
                  width: 100,
                  cell: (server) =>
                    server.engine === 'mssql' ? (
                      <Action size="compact-xs" variant="subtle" onClick={() => setOpened(server)}>
                        Backups
                      </Action>
                    ) : null,
                },
              ]}
            />
          )
        }
      </Loaded>
      <SqlDrawer instance={opened} onClose={() => setOpened(undefined)} />
    </Panel>
  );
}

function Server({ server: { engine, version, instance } }: { server: BackupDatabaseInstance }) {
  return (
    <>
      {ENGINE_NAMES[engine]} {version}
      <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
        {instance}
      </Text>
    </>
  );
}

function Problems({ server: { problems } }: { server: BackupDatabaseInstance }) {
  if (problems.length === 0) return <StateBadge tone="good" label="Can be backed up" />;
  return (
    <Stack gap={4} align="flex-start">
      <StateBadge tone="warning" label="Cannot be backed up as it is" />
      {problems.map(({ code, message }) => (
        <Text key={`${code} ${message}`} size="xs">
          {message}
        </Text>
      ))}
    </Stack>
  );
}

/** Asks one device what it runs. */
function LookAgain({ deviceId }: { deviceId: string | undefined }) {
  const queries = useQueryClient();
  const refusal = useRefusal('backup:read');
  const look = useMutation({
    mutationFn: (asked: string) =>
      call('GET /backup/databases/instances/{deviceId}', {
        params: { deviceId: asked },
        query: { refresh: 'true' },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: [LIST] }),
  });
  return (
    <Group gap="xs">
      {look.error !== null && <Failure error={look.error} />}
      <Action
        variant="default"
        refusal={
          refusal ?? (deviceId === undefined ? 'Choose a device first: one is asked at a time.' : undefined)
        }
        loading={look.isPending}
        onClick={() => deviceId !== undefined && look.mutate(deviceId)}
      >
        Look for databases
      </Action>
    </Group>
  );
}
