import { NumberInput, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type LogRetention } from '../../api/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Loaded } from '../../ui/index.ts';
import { AuditRetentionForm } from './audit-retention-form.tsx';
import { SettingsForm } from './settings-form.tsx';
import { OfOrganization, SettingsFrame } from './settings-frame.tsx';

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
      {(data) => <Form key={orgId} orgId={orgId} retention={data} />}
    </Loaded>
  );
}

const FIELDS = [
  { name: 'diagnosticDays', label: 'Agents’ own logs' },
  { name: 'eventDays', label: 'Stored events' },
  { name: 'commandDays', label: 'Ended commands, with their output' },
  { name: 'alertDays', label: 'Resolved alerts' },
] as const;

function Form({ orgId, retention }: { orgId: string; retention: LogRetention }) {
  const [days, setDays] = useState(retention);
  const refusal = useRefusal({ scopes: ['partner', 'system'], permission: 'organizations:write' });
  const save = useApiChange('PUT /orgs/organizations/{id}/log-retention', {
    refreshes: ['GET /orgs/organizations/{id}/log-retention'],
  });
  return (
    <SettingsForm
      label="Retention of logs"
      refusal={refusal}
      submit={() => save.mutateAsync({ params: { id: orgId }, body: days })}
    >
      {(faults) =>
        FIELDS.map(({ name, label }) => (
          <NumberInput
            key={name}
            label={label}
            suffix=" days"
            required
            value={days[name]}
            onChange={(value) => setDays({ ...days, [name]: typeof value === 'number' ? value : 0 })}
            error={faults[name]}
          />
        ))
      }
    </SettingsForm>
  );
}
