import { NumberInput, Select, Stack, Text, Title, Button, Switch } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type LogRetention, ApiError, type AuditRetention } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Loaded, Action, Failure, When, Notice } from '../../ui/index.ts';
import { SettingsForm, OfOrganization, SettingsFrame } from './settings-frame.tsx';

/** For how long Muster keeps what it has recorded for an organization. */
export function RetentionPage() {
  return (
    <SettingsFrame title="Retention" description="For how long records of an organization are kept.">
      <OfOrganization>
        {(orgId) => (
          <Stack>
            <Title order={2} size="h5">
              Logs, commands and alerts
            </Title>
            <Logs orgId={orgId} />
            <Title order={2} size="h5">
              Audit trail
            </Title>
            <Audit orgId={orgId} />
          </Stack>
        )}
      </OfOrganization>
    </SettingsFrame>
  );
}

function Audit({ orgId }: { orgId: string }) {
  const refusal = useRefusal('audit:read');
  return refusal === undefined ? <AuditRetentionForm orgId={orgId} /> : <Text size="sm">{refusal}</Text>;
}

function Logs({ orgId }: { orgId: string }) {
  const retention = useQuery(
    apiQuery('GET /orgs/organizations/{id}/log-retention', { params: { id: orgId } }),
  );
  return (
    <Loaded query={retention} what="Reading the retention">
      {(data) => <LogsForm key={orgId} orgId={orgId} retention={data} />}
    </Loaded>
  );
}

const FIELDS = [
  { name: 'diagnosticDays', label: 'Agents’ own logs' },
  { name: 'eventDays', label: 'Stored events' },
  { name: 'commandDays', label: 'Ended commands, with their output' },
  { name: 'alertDays', label: 'Resolved alerts' },
] as const;

const WHEN_FULL: { value: LogRetention['whenFull']; label: string }[] = [
  { value: 'refuse', label: 'Refuse new logs' },
  { value: 'remove_oldest', label: 'Remove the oldest logs, by whole days' },
];

function LogsForm({ orgId, retention }: { orgId: string; retention: LogRetention }) {
  const [choice, setChoice] = useState(retention);
  const refusal = useRefusal({ scopes: ['partner', 'system'], permission: 'organizations:write' });
  const save = useApiChange('PUT /orgs/organizations/{id}/log-retention', {
    refreshes: ['GET /orgs/organizations/{id}/log-retention'],
  });
  return (
    <SettingsForm
      label="Retention of logs"
      refusal={refusal}
      submit={() => save.mutateAsync({ params: { id: orgId }, body: choice })}
    >
      {(faults) => (
        <>
          {FIELDS.map(({ name, label }) => (
            <NumberInput
              key={name}
              label={label}
              suffix=" days"
              required
              value={choice[name]}
              onChange={(value) => setChoice({ ...choice, [name]: typeof value === 'number' ? value : 0 })}
              error={faults[name]}
            />
          ))}
          <Select
            label="When the stored logs reach their budget"
            description="Concerns the budget of the whole organization. What is removed is told in an alert and in the audit trail."
            allowDeselect={false}
            data={WHEN_FULL}
            value={choice.whenFull}
            onChange={(whenFull) => whenFull !== null && setChoice({ ...choice, whenFull })}
            error={faults['whenFull']}
          />
        </>
      )}
    </SettingsForm>
  );
}

/** How long the audit entries of one organization are kept. */
function AuditRetentionForm({ orgId }: { orgId: string }) {
  const retention = useQuery(
    apiQuery('GET /orgs/organizations/{id}/audit-retention', { params: { id: orgId } }),
  );
  return (
    <Loaded query={retention} what="Reading the retention">
      {(data) => <AuditForm key={orgId} orgId={orgId} retention={data} />}
    </Loaded>
  );
}

function AuditForm({ orgId, retention }: { orgId: string; retention: AuditRetention }) {
  const [days, setDays] = useState<number | string>(retention.retentionDays);
  const [archives, setArchives] = useState(retention.archiveToS3);
  const refusal = useRefusal({ permission: 'organizations:write', scopes: ['partner', 'system'] });
  const save = useApiChange('PUT /orgs/organizations/{id}/audit-retention', {
    refreshes: ['GET /orgs/organizations/{id}/audit-retention'],
  });
  const faults = save.error instanceof ApiError ? save.error.fields : {};
  const retentionDays = typeof days === 'number' ? days : 0;
  return (
    <Stack gap="sm" align="flex-start" maw={460}>
      <NumberInput
        label="Days that audit entries are kept"
        description="30 to 3650. Shorter deletes older entries at the next daily cleanup, for good."
        min={30}
        max={3650}
        clampBehavior="none"
        value={days}
        onChange={setDays}
        error={faults['retentionDays']}
      />
      <Switch
        label="Copy entries to the archive before they are removed"
        description="Where the copy fails, the entries are kept."
        checked={archives}
        onChange={(event) => setArchives(event.currentTarget.checked)}
        error={faults['archiveToS3']}
      />
      {retention.cleanup === 'off' && (
        <Notice tone="info">
          This server removes no audit entries: the setting AUDIT_ADMIN_DATABASE_URL is not set.
        </Notice>
      )}
      {retention.archive === 'off' && archives && (
        <Notice tone="warning">This server has no archive, so nothing would be removed.</Notice>
      )}
      {retention.lastFailure !== null && (
        <Notice tone="bad" title="The last cleanup failed">
          {retention.lastFailure.reason} (<When at={retention.lastFailure.at} />)
        </Notice>
      )}
      <Text size="sm" component="div">
        Last cleanup: <When at={retention.lastCleanupAt} />
      </Text>
      {save.error !== null && <Failure error={save.error} />}
      {save.isSuccess && <Notice tone="good">The retention is saved.</Notice>}
      {refusal === undefined ? (
        <Button
          loading={save.isPending}
          onClick={() =>
            save.mutate({ params: { id: orgId }, body: { retentionDays, archiveToS3: archives } })
          }
        >
          Save audit retention
        </Button>
      ) : (
        <Action refusal={refusal} onClick={() => undefined}>
          Save audit retention
        </Action>
      )}
    </Stack>
  );
}
