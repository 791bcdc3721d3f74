import { Progress, Stack, Text } from '@mantine/core';
import { formatBytes, formatCount, formatDuration, formatWord, When } from '../../../ui/index.ts';

/** How far a backup or a restore is, as its device last said. */
export interface Standing {
  phase?: string | null | undefined;
  percent?: number | null | undefined;
  done?: number | null | undefined;
  total?: number | null | undefined;
  rate?: number | null | undefined;
  etaSeconds?: number | null | undefined;
  filesDone?: number | null | undefined;
  filesTotal?: number | null | undefined;
  path?: string | null | undefined;
  stalledSince?: string | null | undefined;
}

export function WorkProgress({ standing, label }: { standing: Standing; label: string }) {
  const { phase, percent, done, total, rate, etaSeconds, filesDone, filesTotal, path, stalledSince } =
    standing;
  const parts = [
    phase == null ? undefined : formatWord(phase),
    percent == null ? undefined : `${Math.round(percent)} %`,
    done == null
      ? undefined
      : total == null
        ? formatBytes(done)
        : `${formatBytes(done)} of ${formatBytes(total)}`,
    filesDone == null
      ? undefined
      : `${formatCount(filesDone)}${filesTotal == null ? '' : ` of ${formatCount(filesTotal)}`} files`,
    rate == null || rate === 0 ? undefined : `${formatBytes(rate)}/s`,
    etaSeconds == null ? undefined : `${formatDuration(etaSeconds * 1000)} left`,
  ].filter((part) => part !== undefined);
  return (
    <Stack gap={4}>
      <Progress
        value={percent ?? 100}
        striped={percent == null}
        animated={percent == null}
        aria-label={label}
      />
      <Text size="sm">{parts.length === 0 ? 'It has begun.' : parts.join(' · ')}</Text>
      {path != null && (
        <Text size="xs" c="dimmed" truncate title={path}>
          {path}
        </Text>
      )}
      {stalledSince != null && (
        <Text size="sm" fw={600}>
          It has not advanced since <When at={stalledSince} />.
        </Text>
      )}
    </Stack>
  );
}
