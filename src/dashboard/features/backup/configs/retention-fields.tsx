import { NumberInput, SimpleGrid } from '@mantine/core';
import { KEPT, type Kept, type PartProps } from './config-form.ts';

const LABELS: Record<Kept, string> = {
  keepLast: 'Newest snapshots',
  keepDaily: 'Days',
  keepWeekly: 'Weeks',
  keepMonthly: 'Months',
  keepYearly: 'Years',
  retentionDays: 'All of so many days',
  immutableDays: 'Immutable for days',
};

export function RetentionFields({ form, set, faults }: PartProps) {
  const change = (kind: Kept, value: number | string) => {
    const { [kind]: _, ...others } = form.kept;
    set({ kept: typeof value === 'number' ? { ...others, [kind]: value } : others });
  };
  return (
    <SimpleGrid cols={3} spacing="sm" role="group" aria-label="How many snapshots are kept">
      {KEPT.map((kind) => (
        <NumberInput
          key={kind}
          label={LABELS[kind]}
          min={0}
          allowDecimal={false}
          value={form.kept[kind] ?? ''}
          onChange={(value) => change(kind, value)}
          error={faults[`retention.${kind}`] ?? (kind === 'keepLast' ? faults['retention'] : undefined)}
        />
      ))}
    </SimpleGrid>
  );
}
