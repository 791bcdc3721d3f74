import { NumberInput, Radio, Stack } from '@mantine/core';
import type { Between, ChainForm } from './source-form.ts';

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

/** When a backup of a database is a full one, and what the others are. */
export function ChainFields({
  chain: { fullEveryDays, between },
  set,
  offered,
  faultOf,
}: {
  chain: ChainForm;
  set: (change: Partial<ChainForm>) => void;
  /** What the backups between two full ones can be. */
  offered: readonly Between[];
  faultOf: (name: string) => string | undefined;
}) {
  return (
    <>
      <NumberInput
        label="Days between full backups"
        description="A backup is a full one where the last full one is older."
        required
        allowDecimal={false}
        value={fullEveryDays ?? ''}
        onChange={(value) => set({ fullEveryDays: typeof value === 'number' ? value : undefined })}
        error={faultOf('fullEveryDays')}
      />
      <Radio.Group
        label="Backups between the full ones"
        value={between}
        onChange={(value) => set({ between: offered.find((one) => one === value) ?? between })}
        error={faultOf('between')}
      >
        <Stack gap="xs" mt="xs">
          {offered.map((value) => (
            <Radio key={value} value={value} {...BETWEEN_TEXTS[value]} />
          ))}
        </Stack>
      </Radio.Group>
    </>
  );
}
