import { Chip, Group } from '@mantine/core';
import { formatWord, StateBadge, type Tone } from '../../../../ui/index.ts';

const TONES: Record<string, Tone> = {
  critical: 'bad',
  error: 'bad',
  warning: 'warning',
  warn: 'warning',
  info: 'info',
  debug: 'neutral',
};

export function LevelBadge({ level }: { level: string }) {
  return <StateBadge tone={TONES[level] ?? 'neutral'} label={formatWord(level)} />;
}

/** Some of a few words; none chosen means all. */
export function WordChips({
  label,
  words,
  chosen,
  onChange,
}: {
  label: string;
  words: readonly string[];
  chosen: readonly string[];
  onChange: (chosen: string[] | undefined) => void;
}) {
  return (
    <Chip.Group
      multiple
      value={[...chosen]}
      onChange={(picked) =>
        onChange(picked.length === 0 ? undefined : words.filter((word) => picked.includes(word)))
      }
    >
      <Group gap={4} role="group" aria-label={label}>
        {words.map((word) => (
          <Chip key={word} value={word} size="xs">
            {formatWord(word)}
          </Chip>
        ))}
      </Group>
    </Chip.Group>
  );
}

/** The words of an address that a list really has, joined as the API takes them. */
export const joined = (chosen: readonly string[] | undefined, words: readonly string[]): string | undefined =>
  chosen?.filter((word) => words.includes(word)).join(',') || undefined;
