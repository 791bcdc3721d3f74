import { Text } from '@mantine/core';
import { formatTime } from '../../../ui/index.ts';
import type { Range } from './gaps.ts';

const HEIGHT = 10;
const WIDTH = 1000;
/** A range of a second is still seen. */
const NARROWEST = 4;

/** What can be restored, as bars along the time. The same is said in words beside it. */
export function Timeline({ ranges }: { ranges: readonly Range[] }) {
  const [first, last] = [ranges[0], ranges.at(-1)];
  if (first === undefined || last === undefined) return null;
  const start = Date.parse(first.from);
  const span = Math.max(1, Date.parse(last.to) - start);
  const x = (at: string) => ((Date.parse(at) - start) / span) * WIDTH;
  return (
    <div aria-hidden>
      <svg width="100%" height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
        <rect width={WIDTH} height={HEIGHT} fill="var(--mantine-color-default-border)" />
        {ranges.map(({ from, to }) => (
          <rect
            key={from}
            x={Math.min(x(from), WIDTH - NARROWEST)}
            width={Math.max(NARROWEST, x(to) - x(from))}
            height={HEIGHT}
            fill="var(--mantine-color-teal-filled)"
          />
        ))}
      </svg>
      <Text size="xs" c="dimmed" style={{ display: 'flex', justifyContent: 'space-between' }}>
        <span>{formatTime(new Date(first.from))}</span>
        <span>{formatTime(new Date(last.to))}</span>
      </Text>
    </div>
  );
}
