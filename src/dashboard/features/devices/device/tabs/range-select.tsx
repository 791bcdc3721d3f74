import { Select } from '@mantine/core';
import { useNow } from '../../../../ui/index.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const RANGES: Record<string, { label: string; ms: number | undefined }> = {
  hour: { label: 'Last hour', ms: HOUR_MS },
  day: { label: 'Last 24 hours', ms: 24 * HOUR_MS },
  week: { label: 'Last 7 days', ms: 7 * 24 * HOUR_MS },
  month: { label: 'Last 30 days', ms: 30 * 24 * HOUR_MS },
  all: { label: 'All that is kept', ms: undefined },
};
const CHOICES = Object.entries(RANGES).map(([value, { label }]) => ({ value, label }));

/** Where a range begins moves on in steps, so that a list is not read anew all the time. */
const STEP_MS = 10 * MINUTE_MS;

/** The beginning of a range, some minutes early; `undefined` where it has none. */
export function useRangeBegin(range: string): string | undefined {
  const now = useNow();
  const ms = RANGES[range]?.ms;
  return ms === undefined ? undefined : new Date(Math.floor(now / STEP_MS) * STEP_MS - ms).toISOString();
}

export function RangeSelect({ value, onChange }: { value: string; onChange: (range: string) => void }) {
  return (
    <Select
      w={150}
      aria-label="Time"
      data={CHOICES}
      value={Object.hasOwn(RANGES, value) ? value : 'all'}
      allowDeselect={false}
      onChange={(range) => {
        if (range !== null) onChange(range);
      }}
    />
  );
}
