import { Radio, Stack, Textarea } from '@mantine/core';
import type { SourceFieldProps } from './source-form.ts';

/** Machines of a hypervisor. */
export function MachineFields({ form, set, faultOf }: SourceFieldProps) {
  return (
    <>
      <Radio.Group
        label="Which machines"
        value={form.machines}
        onChange={(value) => set({ machines: value === 'named' ? 'named' : 'all' })}
      >
        <Stack gap="xs" mt="xs">
          <Radio value="all" label="All of them" description="Also those that a host gets later." />
          <Radio value="named" label="Those that are named" />
        </Stack>
      </Radio.Group>
      {form.machines === 'named' && (
        <Textarea
          label="Machines"
          required
          description="Names or ids, one a line, as the page “Machines” lists them."
          autosize
          minRows={2}
          value={form.machineNames}
          onChange={(event) => set({ machineNames: event.currentTarget.value })}
          error={faultOf('machines')}
        />
      )}
      <Radio.Group
        label="In which state"
        value={form.consistency}
        onChange={(value) => set({ consistency: value === 'crash' ? 'crash' : 'application' })}
        error={faultOf('consistency')}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="application"
            label="Of the applications"
            description="The programs in a machine are asked to write what they hold. Where one cannot be asked, the backup is partial."
          />
          <Radio value="crash" label="As after a power cut" description="Nothing in the machine is asked." />
        </Stack>
      </Radio.Group>
    </>
  );
}
