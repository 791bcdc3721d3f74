import { Autocomplete, Select } from '@mantine/core';
import { ENGINE_NAMES } from '../../parts/database-names.ts';
import { ChainFields } from './chain-fields.tsx';
import { BETWEEN, usualBetween, type Engine, type SourceFieldProps } from './source-form.ts';
import { useInstances } from './use-instances.ts';

const ENGINES: readonly { value: Engine; label: string }[] = [
  { value: 'postgresql', label: ENGINE_NAMES.postgresql },
  { value: 'mariadb', label: ENGINE_NAMES.mariadb },
];

export function DatabaseFields({ form, set, faultOf }: SourceFieldProps) {
  const { orgId, engine } = form;
  const names = new Set(useInstances(orgId, engine).map(({ instance }) => instance));
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
      <ChainFields chain={form} set={set} offered={BETWEEN[engine]} faultOf={faultOf} />
    </>
  );
}
