import { NumberInput, SimpleGrid } from '@mantine/core';
import type { PartProps } from './config-form.ts';

const LIMITS = [
  { name: 'uploadKiBps', label: 'Upload of a device in KiB a second' },
  { name: 'cpuPercent', label: 'Percent of its processors' },
] as const;

/** What a backup may take of its device. */
export function LimitFields({ form, set, faults }: PartProps) {
  return (
    <SimpleGrid cols={2} spacing="sm" role="group" aria-label="What a backup may take of its device">
      {LIMITS.map(({ name, label }) => (
        <NumberInput
          key={name}
          label={label}
          description="Empty: no limit."
          allowDecimal={false}
          value={form[name] ?? ''}
          onChange={(value) => set({ [name]: typeof value === 'number' ? value : undefined })}
          error={faults[`limits.${name}`]}
        />
      ))}
    </SimpleGrid>
  );
}
