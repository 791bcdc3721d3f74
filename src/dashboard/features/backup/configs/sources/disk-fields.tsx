import { Radio, Stack, Textarea } from '@mantine/core';
import type { SourceFieldProps } from './source-form.ts';

export function DiskFields({ form, set, faultOf }: SourceFieldProps) {
  return (
    <>
      <Radio.Group
        label="Which disks"
        value={form.disks}
        onChange={(value) => set({ disks: value === 'named' ? 'named' : 'all' })}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="all"
            label="Every fixed disk"
            description="Also those that a device gets later. Disks that can be pulled out are left out."
          />
          <Radio value="named" label="Those that are named" />
        </Stack>
      </Radio.Group>
      {form.disks === 'named' ? (
        <Textarea
          label="Disks"
          required
          description="Names on the device, one a line, such as sda, or paths of files that each hold a disk."
          autosize
          minRows={2}
          value={form.diskNames}
          onChange={(event) => set({ diskNames: event.currentTarget.value })}
          error={faultOf('disks')}
        />
      ) : (
        <Textarea
          label="Disks that are left out"
          description="Names on the device, one a line, such as sdb."
          autosize
          minRows={2}
          value={form.excludeDisks}
          onChange={(event) => set({ excludeDisks: event.currentTarget.value })}
          error={faultOf('excludeDisks')}
        />
      )}
    </>
  );
}
