import { Autocomplete, NumberInput, Radio, Select, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../../api/index.ts';
import { ENGINE_NAMES } from '../../parts/database-names.ts';
import { BETWEEN, usualBetween, type Between, type Engine, type SourceFieldProps } from './source-form.ts';

const ENGINES: readonly { value: Engine; label: string }[] = [
  { value: 'postgresql', label: ENGINE_NAMES.postgresql },
  { value: 'mariadb', label: ENGINE_NAMES.mariadb },
];
const BETWEEN_TEXTS: Readonly<Record<Between, { label: string; description: string }>> = {
  log: {
    label: 'Logs',
    description: 'Small. Every point in time between two backups can be restored.',
  },
  differential: {
    label: 'What has changed since the full one',
    description: 'The state of each backup can be restored, and none between them.',
  },
  none: { label: 'Nothing', description: 'Every backup is a full one.' },
};

export function DatabaseFields({ form, set, faultOf }: SourceFieldProps) {
  const { orgId, engine } = form;
  const found = useQuery({
    ...apiQuery('GET /backup/databases/instances', { query: { orgId, engine, limit: '100' } }),
    enabled: orgId !== undefined,
  });
  const names = new Set((found.data?.data ?? []).map(({ instance }) => instance));
  return (
    <>
      <Select
        label="Engine"
        required
        allowDeselect={false}
        data={ENGINES}
        value={engine}
        onChange={(value) => {
          const next = ENGINES.find((one) => one.value === value)?.value ?? engine;
          set({ engine: next, between: usualBetween(next) });
        }}
        error={faultOf('engine')}
      />
      <Autocomplete
        label="Instance"
        description="Where the server listens on the device, as the page “Databases” lists it. Empty: the only one of the engine on each device."
        data={[...names]}
        value={form.instance}
        onChange={(instance) => set({ instance })}
        error={faultOf('instance')}
      />
      <NumberInput
        label="Days between full backups"
        description="A backup is a full one where the last full one is older."
        required
        allowDecimal={false}
        value={form.fullEveryDays ?? ''}
        onChange={(value) => set({ fullEveryDays: typeof value === 'number' ? value : undefined })}
        error={faultOf('fullEveryDays')}
      />
      <Radio.Group
        label="Backups between the full ones"
        value={form.between}
        onChange={(value) =>
          set({ between: BETWEEN[engine].find((one) => one === value) ?? usualBetween(engine) })
        }
        error={faultOf('between')}
      >
        <Stack gap="xs" mt="xs">
          {BETWEEN[engine].map((value) => (
            <Radio key={value} value={value} {...BETWEEN_TEXTS[value]} />
          ))}
        </Stack>
      </Radio.Group>
    </>
  );
}
