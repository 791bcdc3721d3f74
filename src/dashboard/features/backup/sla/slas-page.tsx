import { Group, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type BackupSlaConfig } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  formatDuration,
  Loaded,
  PagedTable,
  StateBadge,
} from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { countedTargets } from '../parts/counted-targets.ts';
import { BreachTable } from './breach-table.tsx';
import { SlaDialog } from './sla-dialog.tsx';

const route = getRouteApi('/signed-in/backup/slas');
const BREACHES_SHOWN = 20;
const MINUTE_MS = 60_000;
const inWords = (minutes: number) => formatDuration(minutes * MINUTE_MS);

/** What is promised to customers, and where it was not kept. */
export function SlasPage() {
  const { page, breaches } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('backup:write');
  const [opened, setOpened] = useState<{ sla: BackupSlaConfig | undefined }>();
  const slas = useQuery({
    ...apiQuery('GET /backup/sla/configs', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const newSla = (
    <Action
      refusal={write}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setOpened({ sla: undefined })}
    >
      New SLA
    </Action>
  );
  return (
    <BackupFrame
      title="SLAs"
      description="What is promised about backups. Muster checks every few minutes whether it is kept."
      actions={newSla}
    >
      <Loaded query={slas} what="Reading SLAs">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No SLAs" action={newSla}>
              An SLA says how old the newest snapshot may be, and how long a restore may take.
            </Empty>
          ) : (
            <>
              <PagedTable
                label="SLAs"
                rows={data}
                keyOf={({ id }) => id}
                page={pagination}
                onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
                columns={[
                  {
                    header: 'Name',
                    isName: true,
                    cell: ({ name, isActive, alertOnBreach }) => (
                      <Group gap={6}>
                        {name}
                        {!isActive && <StateBadge tone="neutral" label="Switched off" />}
                        {isActive && !alertOnBreach && <StateBadge tone="neutral" label="No alerts" />}
                      </Group>
                    ),
                  },
                  { header: 'Organization', cell: (sla) => names.organization(sla.orgId) },
                  { header: 'Newest snapshot', cell: (sla) => inWords(sla.rpoTargetMinutes) },
                  { header: 'Restore', cell: (sla) => inWords(sla.rtoTargetMinutes) },
                  { header: 'Devices', cell: targetText },
                  {
                    header: 'Actions',
                    align: 'right',
                    cell: (sla) => <SlaActions sla={sla} onChange={() => setOpened({ sla })} />,
                  },
                ]}
              />
              <Title order={2} size="h5">
                Breaches
              </Title>
              <BreachTable
                orgId={orgId}
                limit={BREACHES_SHOWN}
                page={breaches}
                onPage={(next) => void navigate({ search: (previous) => ({ ...previous, breaches: next }) })}
              />
            </>
          )
        }
      </Loaded>
      {opened !== undefined && <SlaDialog sla={opened.sla} onClose={() => setOpened(undefined)} />}
    </BackupFrame>
  );
}

function SlaActions({ sla: { id, name }, onChange }: { sla: BackupSlaConfig; onChange: () => void }) {
  const write = useRefusal('backup:write');
  const deleting = useRefusal('backup:delete');
  const remove = useApiChange('DELETE /backup/sla/configs/{id}', {
    refreshes: ['GET /backup/sla/configs', 'GET /backup/sla/events'],
  });
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  return (
    <Group gap={2} justify="flex-end">
      <Action {...button} refusal={write} onClick={onChange}>
        Change
      </Action>
      <ConfirmAction
        {...button}
        refusal={deleting}
        title={`Delete “${name}”`}
        question="The breaches that it found are deleted with it. To keep them, switch it off instead."
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id } })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}

function targetText({ targetDevices, targetGroups }: BackupSlaConfig): string {
  const parts = countedTargets(targetDevices, targetGroups);
  return parts.length === 0 ? 'All that are backed up' : parts.join(', ');
}
