import { NumberInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type AlertSettings } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { formatDuration, Loaded } from '../../ui/index.ts';
import { SettingsForm, OfOrganization, SettingsFrame } from './settings-frame.tsx';

/** When Muster raises alerts by itself, for each organization. */
export function AlertThresholdsPage() {
  return (
    <SettingsFrame
      title="Alert thresholds"
      description="When Muster raises alerts for the devices of an organization."
    >
      <OfOrganization>{(orgId) => <Thresholds orgId={orgId} />}</OfOrganization>
    </SettingsFrame>
  );
}

function Thresholds({ orgId }: { orgId: string }) {
  const settings = useQuery(
    apiQuery('GET /orgs/organizations/{id}/alert-settings', { params: { id: orgId } }),
  );
  return (
    <Loaded query={settings} what="Reading thresholds">
      {(data) => <Form key={orgId} orgId={orgId} settings={data} />}
    </Loaded>
  );
}

const orNull = (value: number | string) => (typeof value === 'number' ? value : null);

/** Minutes that are hours or days, as those. */
const inDays = (minutes: number | string): string =>
  typeof minutes === 'number' && minutes >= 60 ? ` Now: ${formatDuration(minutes * 60_000)}.` : '';

function Form({ orgId, settings }: { orgId: string; settings: AlertSettings }) {
  const [minutes, setMinutes] = useState<number | string>(settings.offlineAfterMinutes ?? '');
  const [percent, setPercent] = useState<number | string>(settings.diskPercent ?? '');
  const refusal = useRefusal('organizations:write');
  const save = useApiChange('PATCH /orgs/organizations/{id}/alert-settings', {
    refreshes: ['GET /orgs/organizations/{id}/alert-settings'],
  });
  return (
    <SettingsForm
      label="Alert thresholds"
      refusal={refusal}
      submit={() =>
        save.mutateAsync({
          params: { id: orgId },
          body: { offlineAfterMinutes: orNull(minutes), diskPercent: orNull(percent) },
        })
      }
    >
      {(faults) => (
        <>
          <NumberInput
            label="Device offline for longer than"
            description={`1 to 43,200 minutes, which are 30 days. Empty: no alerts for offline devices.${inDays(minutes)}`}
            suffix=" minutes"
            value={minutes}
            onChange={setMinutes}
            error={faults['offlineAfterMinutes']}
          />
          <NumberInput
            label="Disk fuller than"
            description="50 to 100 percent. Empty: no alerts for full disks."
            suffix=" %"
            value={percent}
            onChange={setPercent}
            error={faults['diskPercent']}
          />
        </>
      )}
    </SettingsForm>
  );
}
