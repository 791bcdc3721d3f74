import { Group, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type BackupConfig } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, Empty, Loaded, PagedTable, StateBadge } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { ConfigDialog } from './config-dialog.tsx';
import { RunDialog, TestDialog } from './config-trials.tsx';
import { scheduleText } from '../schedule/schedule-form.ts';
import { placeText, sourceText, targetText } from './config-texts.ts';

const route = getRouteApi('/signed-in/backup/configurations');
type Opened =
  | { what: 'edit'; config: BackupConfig | undefined }
  | { what: 'test' | 'run'; config: BackupConfig };

/** What is backed up, when, and to where. */
export function ConfigsPage() {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  const write = useRefusal('backup:write');
  const configs = useQuery({
    ...apiQuery('GET /backup/configs', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const newConfig = (
    <Action
      refusal={write}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setOpened({ what: 'edit', config: undefined })}
    >
      New configuration
    </Action>
  );
  return (
    <BackupFrame
      title="Backup configurations"
      description="What is backed up, when, and where it goes."
      actions={newConfig}
    >
      <Loaded query={configs} what="Reading configurations">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No configurations" action={newConfig}>
              A configuration says what is backed up, when, to where, and of which devices.
            </Empty>
          ) : (
            <PagedTable
              label="Backup configurations"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  cell: ({ name, isDefault, enabled }) => (
                    <Group gap={6}>
                      {name}
                      {isDefault && <StateBadge tone="info" label="Default" />}
                      {!enabled && <StateBadge tone="neutral" label="Switched off" />}
                    </Group>
                  ),
                },
                { header: 'Organization', cell: (config) => names.organization(config.orgId) },
                { header: 'What', cell: sourceText },
                {
                  header: 'Place',
                  cell: (config) => (
                    <>
                      {placeText(config)}
                      {!config.providerCapabilities.isAppendOnly && (
                        <Text size="xs" c="dimmed">
                          A device can delete the data.
                        </Text>
                      )}
                    </>
                  ),
                },
                { header: 'Schedule', cell: ({ schedule }) => scheduleText(schedule) },
                { header: 'Devices', cell: targetText },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: (config) => <ConfigActions config={config} onOpen={setOpened} />,
                },
              ]}
            />
          )
        }
      </Loaded>
      {opened?.what === 'edit' && <ConfigDialog config={opened.config} onClose={close} />}
      {opened?.what === 'test' && <TestDialog config={opened.config} onClose={close} />}
      {opened?.what === 'run' && <RunDialog config={opened.config} onClose={close} />}
    </BackupFrame>
  );
}

function ConfigActions({ config, onOpen }: { config: BackupConfig; onOpen: (opened: Opened) => void }) {
  const write = useRefusal('backup:write');
  const execute = useRefusal('backup:execute');
  const deleting = useRefusal('backup:delete');
  const remove = useApiChange('DELETE /backup/configs/{id}', { refreshes: ['GET /backup/configs'] });
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  return (
    <Group gap={2} justify="flex-end">
      <Action
        {...button}
        refusal={execute ?? (config.enabled ? undefined : 'It is switched off.')}
        onClick={() => onOpen({ what: 'run', config })}
      >
        Run now
      </Action>
      <Action {...button} refusal={execute} onClick={() => onOpen({ what: 'test', config })}>
        Test
      </Action>
      <Action {...button} refusal={write} onClick={() => onOpen({ what: 'edit', config })}>
        Change
      </Action>
      <ConfirmAction
        {...button}
        refusal={deleting}
        title={`Delete “${config.name}”`}
        question="No more backups are made by it. Its snapshots stay, and nothing removes them any more."
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id: config.id }, query: { keepSnapshots: 'true' } })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}
