import { Group, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { scheduleText } from '../backup/index.ts';
import { apiQuery, useApiChange, type CloudBackupConfig, useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useLiveWork } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  formatBytes,
  JobStateBadge,
  StateBadge,
  When,
  TextLink,
  ListPage,
  useAddress,
  TwoLines,
} from '../../ui/index.ts';
import { CloudFrame, KIND_NAMES, KINDS, useCloudConnections, useConnectionName } from './cloud-frame.tsx';
import { CloudConfigDialog, usersText } from './config-dialog.tsx';

const route = getRouteApi('/signed-in/cloud-backup');
const USAGE_MS = 10_000;
/** `undefined`: a new one. */
type Opened = { config: CloudBackupConfig | undefined };

/** The backups of Microsoft 365: which data, of which users, and when. */
export function CloudConfigsPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const [opened, setOpened] = useState<Opened>();
  const write = useRefusal('backup:write');
  const connections = useCloudConnections(orgId);
  const connectionName = useConnectionName(orgId);
  const configs = useList('GET /c2c/configs', { query: { orgId, page: String(address.search.page ?? 1) } });
  // Read again by itself as well: what a run has stored can be counted after its end was shown.
  const usage = useQuery({
    ...apiQuery('GET /c2c/usage', { query: { orgId } }),
    refetchInterval: USAGE_MS,
  });
  useLiveWork('cloud_backup', orgId, ['GET /c2c/configs', 'GET /c2c/usage']);
  const hasConnection = (connections.data?.data.length ?? 0) > 0;
  const newConfig = (
    <Action
      refusal={write ?? (hasConnection ? undefined : 'Connect a directory of Microsoft 365 first.')}
      icon={IconPlus}
      onClick={() => setOpened({ config: undefined })}
    >
      New configuration
    </Action>
  );
  return (
    <ListPage
      frame={CloudFrame}
      title="Cloud backup"
      description={
        <>
          Mail, calendars, contacts and OneDrive of Microsoft 365.
          {(usage.data?.storedBytes ?? 0) > 0 &&
            ` They take ${formatBytes(usage.data?.storedBytes ?? 0)} in the backup store.`}
        </>
      }
      actions={newConfig}
      query={configs}
      noun="configurations"
      label="Cloud backup configurations"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: hasConnection ? 'No configurations' : 'No directory is connected',
        text: hasConnection
          ? 'A configuration says what is backed up, of which users, when, and for how long it is kept.'
          : 'Connect a directory of Microsoft 365. Then choose what is backed up, and of whom.',
        action: hasConnection ? newConfig : <ToConnections />,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          width: 190,
          cell: ({ name, enabled, orgId: owner }) => (
            <TwoLines below={names.organization(owner)}>
              <Group gap={6}>
                {name}
                {!enabled && <StateBadge tone="neutral" label="Switched off" />}
              </Group>
            </TwoLines>
          ),
        },
        {
          header: 'What',
          cell: (config) => (
            <TwoLines below={`${usersText(config)} of ${connectionName(config.connectionId)}`}>
              {KINDS.filter((kind) => config.backupScope.includes(kind))
                .map((kind) => KIND_NAMES[kind])
                .join(', ')}
            </TwoLines>
          ),
        },
        {
          header: 'Schedule',
          width: 150,
          cell: ({ schedule, nextRunAt }) => (
            <TwoLines
              below={
                nextRunAt !== null && (
                  <>
                    Next: <When at={nextRunAt} />
                  </>
                )
              }
            >
              {scheduleText(schedule)}
            </TwoLines>
          ),
        },
        { header: 'Last run', width: 120, cell: ({ lastRun }) => <LastRun run={lastRun} /> },
        {
          header: 'Actions',
          align: 'right',
          cell: (config) => <ConfigActions config={config} onChange={() => setOpened({ config })} />,
        },
      ]}
    >
      {opened !== undefined && (
        <CloudConfigDialog
          config={opened.config}
          connections={connections.data?.data ?? []}
          onClose={() => setOpened(undefined)}
        />
      )}
    </ListPage>
  );
}

const ToConnections = () => <TextLink to="/cloud-backup/connections">Connect a directory</TextLink>;

function LastRun({ run }: { run: CloudBackupConfig['lastRun'] }) {
  if (run === null) return 'Never';
  return (
    <TwoLines
      below={
        <TextLink inherit underline="always" to="/cloud-backup/jobs" search={{ job: run.jobId }}>
          <When at={run.completedAt ?? run.createdAt} />
        </TextLink>
      }
    >
      <JobStateBadge state={run.status} />
    </TwoLines>
  );
}

function ConfigActions({ config, onChange }: { config: CloudBackupConfig; onChange: () => void }) {
  const { id, name, lastRun } = config;
  const navigate = useNavigate();
  const write = useRefusal('backup:write');
  const execute = useRefusal('backup:execute');
  const deleting = useRefusal('backup:delete');
  const run = useApiChange('POST /c2c/configs/{id}/run', {
    refreshes: ['GET /c2c/configs', 'GET /c2c/jobs'],
  });
  const remove = useApiChange('DELETE /c2c/configs/{id}', { refreshes: ['GET /c2c/configs'] });
  const isRunning = lastRun !== null && lastRun.completedAt === null;
  const begin = () =>
    run.mutate(
      { params: { id } },
      { onSuccess: (job) => void navigate({ to: '/cloud-backup/jobs', search: { job: job.id } }) },
    );
  return (
    <>
      <Group gap={2} justify="flex-end" wrap="nowrap">
        <Action
          inRow
          refusal={execute ?? (isRunning ? 'A run of it has not ended yet.' : undefined)}
          loading={run.isPending}
          onClick={begin}
        >
          Run now
        </Action>
        <Action inRow onClick={() => void navigate({ to: '/cloud-backup/items', search: { config: id } })}>
          Items
        </Action>
        <Action inRow refusal={write} onClick={onChange}>
          Change
        </Action>
        <ConfirmAction
          inRow
          refusal={deleting}
          title={`Delete “${name}”`}
          question="All items that it has backed up are deleted with it, also earlier contents. This cannot be undone."
          confirm="Delete with all items"
          run={() => remove.mutateAsync({ params: { id } })}
        >
          Delete
        </ConfirmAction>
      </Group>
      {run.error !== null && (
        <Text size="xs" c="red" role="alert">
          {run.error.message}
        </Text>
      )}
    </>
  );
}
