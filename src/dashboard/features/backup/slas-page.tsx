import { Group, Title, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type BackupSlaConfig, useList } from '../../api/index.ts';
import { useOrganizationChoice, useNames, useFirstOrganization, choicesOf } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  formatDuration,
  StateBadge,
  FormDialog,
  useForm,
  ListPage,
  useAddress,
  Loaded,
  PagedTable,
  When,
  Panel,
  TextLink,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { deviceName, useDevices, DeviceLink } from './selects.tsx';
import { countedTargets } from './texts.ts';

const route = getRouteApi('/signed-in/backup/slas');
const BREACHES_SHOWN = 20;
const MINUTE_MS = 60_000;
const inWords = (minutes: number) => formatDuration(minutes * MINUTE_MS);

/** The objectives promised to customers, and their breaches. */
export function SlasPage() {
  const address = useAddress(route.useSearch());
  const { page = 1, breaches } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('backup:write');
  const [opened, setOpened] = useState<{ sla: BackupSlaConfig | undefined }>();
  const slas = useList('GET /backup/sla/configs', { query: { orgId, page: String(page) } });
  const newSla = (
    <Action refusal={write} icon={IconPlus} onClick={() => setOpened({ sla: undefined })}>
      New SLA
    </Action>
  );
  return (
    <ListPage
      frame={BackupFrame}
      title="SLAs"
      description="What is promised about backups. Muster checks every few minutes whether it is kept."
      actions={newSla}
      query={slas}
      noun="SLAs"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No SLAs',
        text: 'An SLA says how old the newest snapshot may be, and how long a restore may take.',
        action: newSla,
      }}
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
    >
      {slas.data?.data.length !== 0 && (
        <>
          <Title order={2} size="h5">
            Breaches
          </Title>
          <BreachTable
            orgId={orgId}
            limit={BREACHES_SHOWN}
            page={breaches}
            onPage={(next) => address.set({ breaches: next })}
          />
        </>
      )}
      {opened !== undefined && <SlaDialog sla={opened.sla} onClose={() => setOpened(undefined)} />}
    </ListPage>
  );
}

function SlaActions({ sla: { id, name }, onChange }: { sla: BackupSlaConfig; onChange: () => void }) {
  const write = useRefusal('backup:write');
  const deleting = useRefusal('backup:delete');
  const remove = useApiChange('DELETE /backup/sla/configs/{id}', {
    refreshes: ['GET /backup/sla/configs', 'GET /backup/sla/events'],
  });
  return (
    <Group gap={2} justify="flex-end">
      <Action inRow refusal={write} onClick={onChange}>
        Change
      </Action>
      <ConfirmAction
        inRow
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

const MINUTES_OF_HOUR = 60;
const HOURS_OF_YEAR = 8760;

/** Creates an SLA, or changes one. */
function SlaDialog({ sla, onClose }: { sla: BackupSlaConfig | undefined; onClose: () => void }) {
  const first = useFirstOrganization();
  const organization = useOrganizationChoice();
  const form = useForm({
    orgId: sla?.orgId,
    name: sla?.name ?? '',
    rpoHours: (sla?.rpoTargetMinutes ?? 24 * MINUTES_OF_HOUR) / MINUTES_OF_HOUR,
    rtoHours: (sla?.rtoTargetMinutes ?? 4 * MINUTES_OF_HOUR) / MINUTES_OF_HOUR,
    targetDevices: sla?.targetDevices ?? [],
    targetGroups: sla?.targetGroups ?? [],
    alertOnBreach: sla?.alertOnBreach ?? true,
    isActive: sla?.isActive ?? true,
  });
  const { orgId = first, rpoHours, rtoHours, ...rest } = form.values;
  const devices = useDevices(orgId);
  const groups = useQuery(apiQuery('GET /groups', { query: { orgId, limit: '100' } }));
  const refreshes = ['GET /backup/sla/configs', 'GET /backup/sla/events'] as const;
  const create = useApiChange('POST /backup/sla/configs', { refreshes });
  const patch = useApiChange('PATCH /backup/sla/configs/{id}', { refreshes });
  const submit = () => {
    const body = {
      ...rest,
      rpoTargetMinutes: Math.round(rpoHours * MINUTES_OF_HOUR),
      rtoTargetMinutes: Math.round(rtoHours * MINUTES_OF_HOUR),
    };
    return sla === undefined
      ? create.mutateAsync({ body: { ...body, orgId: orgId ?? '' } })
      : patch.mutateAsync({ params: { id: sla.id }, body });
  };
  const hours = { kind: 'number', required: true, min: 0, max: HOURS_OF_YEAR, decimals: 2 } as const;
  return (
    <FormDialog
      title={sla === undefined ? 'New SLA' : `Change “${sla.name}”`}
      onClose={onClose}
      submitLabel={sla === undefined ? 'Create SLA' : 'Save'}
      submit={submit}
      form={form}
      fields={[
        sla === undefined &&
          organization && {
            name: 'orgId',
            ...organization,
            shown: orgId,
            resets: { targetDevices: [], targetGroups: [] },
          },
        { name: 'name', label: 'Name', required: true, maxLength: 200 },
        {
          name: 'rpoHours',
          fault: 'rpoTargetMinutes',
          label: 'The newest snapshot is at most so old (hours)',
          description: 'The recovery point objective (RPO): how much work may be lost.',
          ...hours,
        },
        {
          name: 'rtoHours',
          fault: 'rtoTargetMinutes',
          label: 'A restore takes at most so long (hours)',
          description: 'The recovery time objective (RTO), by the estimate from the restores so far.',
          ...hours,
        },
        {
          name: 'targetDevices',
          kind: 'choices',
          label: 'Devices',
          description: 'Without devices and groups: all devices that are backed up.',
          options: devices.map((device) => ({ value: device.id, label: deviceName(device) })),
        },
        {
          name: 'targetGroups',
          kind: 'choices',
          label: 'Groups',
          options: choicesOf(groups.data?.data ?? []),
        },
        { name: 'alertOnBreach', kind: 'checkbox', label: 'Raise an alert about a breach' },
        { name: 'isActive', kind: 'checkbox', label: 'Active' },
      ]}
    />
  );
}

const EVENTS = {
  rpo_breach: 'The newest snapshot is too old',
  rto_breach: 'A restore would take too long',
  missed_backup: 'A backup did not happen',
} as const;

/** Where what was promised to customers was not kept, the newest first. */
function BreachTable({
  orgId,
  limit,
  page = 1,
  onPage,
}: {
  orgId: string | undefined;
  limit: number;
  page?: number | undefined;
  /** Without it, only the first page is shown. */
  onPage?: (page: number) => void;
}) {
  const events = useList('GET /backup/sla/events', {
    query: { orgId, limit: String(limit), page: String(page) },
  });
  return (
    <Loaded query={events} what="Reading breaches">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Text size="sm">Nothing that was promised was missed.</Text>
        ) : (
          <PagedTable
            label="Breaches of SLAs"
            rows={data}
            keyOf={({ id }) => id}
            page={onPage === undefined ? undefined : pagination}
            onPage={onPage}
            columns={[
              { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
              { header: 'What', cell: ({ eventType }) => EVENTS[eventType] },
              { header: 'Since', width: 110, cell: ({ detectedAt }) => <When at={detectedAt} /> },
              {
                header: 'State',
                width: 110,
                cell: ({ resolvedAt }) =>
                  resolvedAt === null ? (
                    <StateBadge tone="bad" label="It lasts" />
                  ) : (
                    <StateBadge tone="good" label="Over" />
                  ),
              },
            ]}
          />
        )
      }
    </Loaded>
  );
}

const SHOWN = 8;

export function SlaEvents({ orgId }: { orgId: string | undefined }) {
  return (
    <Panel title="Breaches of SLAs">
      <BreachTable orgId={orgId} limit={SHOWN} />
      <TextLink size="sm" to="/backup/slas">
        SLAs and all breaches
      </TextLink>
    </Panel>
  );
}
