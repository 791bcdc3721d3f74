import { Chip, Group } from '@mantine/core';
import { formatCount, formatWord } from './format.ts';

/** Some of a few values, each of which is a chip. With counts, only the values that there are, and those chosen. */
export function ChipChoice<V extends string>({
  label,
  values,
  nameOf = formatWord,
  counts,
  chosen,
  onChange,
}: {
  /** The accessible name of the list of chips. */
  label: string;
  values: readonly V[];
  nameOf?: (value: V) => string;
  counts?: ReadonlyMap<V, number>;
  chosen: readonly V[];
  onChange: (chosen: V[]) => void;
}) {
  const offered = values.filter((value) => counts?.has(value) !== false || chosen.includes(value));
  return (
    <Chip.Group
      multiple
      value={[...chosen]}
      onChange={(picked) => onChange(values.filter((value) => picked.includes(value)))}
    >
      <Group gap={4} role="group" aria-label={label}>
        {offered.map((value) => (
          <Chip key={value} value={value} size="xs">
            {nameOf(value)}
            {counts !== undefined && ` ${formatCount(counts.get(value) ?? 0)}`}
          </Chip>
        ))}
      </Group>
    </Chip.Group>
  );
}
