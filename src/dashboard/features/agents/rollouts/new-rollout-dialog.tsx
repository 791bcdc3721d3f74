import { NumberInput, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange } from '../../../api/index.ts';
import { FormDialog } from '../../../ui/index.ts';

const COMPONENTS = [
  { value: 'agent', label: 'Agent' },
  { value: 'watchdog', label: 'Watchdog' },
];
const SOAK_MINUTES = 60;

/** Starts a rollout. Without own waves, the server takes its usual ones. */
export function NewRolloutDialog({ onClose, onMade }: { onClose: () => void; onMade: (id: string) => void }) {
  const [component, setComponent] = useState<'agent' | 'watchdog'>('agent');
  const [version, setVersion] = useState<string | null>(null);
  const [shares, setShares] = useState('');
  const [soakMinutes, setSoak] = useState<number | string>(SOAK_MINUTES);
  const [failedPercent, setFailed] = useState<number | string>('');
  const pinnable = useQuery(apiQuery('GET /agent-versions/pinnable'));
  const start = useApiChange('POST /agent-rollouts', { refreshes: ['GET /agent-rollouts'] });
  const submit = async () => {
    const waves = shares
      .split(/[\s,]+/)
      .filter((share) => share !== '')
      .map((share) => ({ percent: Number(share), soakMinutes: Number(soakMinutes) }));
    const { id } = await start.mutateAsync({
      body: {
        component,
        version: version ?? '',
        ...(waves.length === 0 ? {} : { waves }),
        ...(typeof failedPercent === 'number' ? { haltWhen: { failedPercent } } : {}),
      },
    });
    onMade(id);
  };
  return (
    <FormDialog title="New rollout" opened onClose={onClose} submit={submit} submitLabel="Start the rollout">
      {(faults) => (
        <>
          <Select
            label="Component"
            allowDeselect={false}
            data={COMPONENTS}
            value={component}
            onChange={(value) => {
              setComponent(value === 'watchdog' ? 'watchdog' : 'agent');
              setVersion(null);
            }}
            error={faults['component']}
          />
          <Select
            label="Version"
            required
            searchable
            data={pinnable.data?.components[component].versions ?? []}
            value={version}
            onChange={setVersion}
            error={faults['version'] ?? pinnable.error?.message}
          />
          <TextInput
            label="Shares of the waves, in percent"
            description="Such as 1, 4, 15, 30, 50: each adds its share of the fleet. Empty: the usual waves."
            value={shares}
            onChange={(event) => setShares(event.currentTarget.value)}
            error={Object.entries(faults).find(([path]) => path.startsWith('waves'))?.[1]}
          />
          {shares.trim() !== '' && (
            <NumberInput
              label="Minutes that each wave is observed"
              min={1}
              allowDecimal={false}
              value={soakMinutes}
              onChange={setSoak}
            />
          )}
          <NumberInput
            label="Halt when so many percent fail"
            description="Of the devices that have finished, and at least two. Empty: as usual."
            min={1}
            max={100}
            value={failedPercent}
            onChange={setFailed}
            error={faults['haltWhen.failedPercent']}
          />
        </>
      )}
    </FormDialog>
  );
}
