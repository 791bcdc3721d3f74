import { Text } from '@mantine/core';
import { useSyncExternalStore } from 'react';
import { formatDuration, formatRelative, formatTime } from './format.ts';

const TICK_MS = 10_000;
const MINUTE_MS = 60_000;
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const watchers = new Set<() => void>();

/** One clock for all times on the page. */
function watch(callback: () => void): () => void {
  watchers.add(callback);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, TICK_MS);
  return () => {
    watchers.delete(callback);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time by a clock that moves on every ten seconds. */
export const useNow = (): number => useSyncExternalStore(watch, () => now);

/** A time as "3 min. ago", with the exact time for the pointer, and for readers of screens. */
export function When({ at, never = 'Never' }: { at: string | null | undefined; never?: string }) {
  const clock = useNow();
  if (at === null || at === undefined) {
    return (
      <Text span inherit c="dimmed">
        {never}
      </Text>
    );
  }
  const date = new Date(at);
  // A time that lies between two ticks of the clock is not in the future.
  const text = formatRelative(date, Math.max(clock, Math.min(date.getTime(), clock + TICK_MS)));
  return (
    <time dateTime={at} title={formatTime(date)}>
      {text}
    </time>
  );
}

/** How long it has lasted, as "29 min", with the exact beginning for the pointer, and for readers of screens. */
export function For({ at }: { at: string }) {
  const clock = useNow();
  const date = new Date(at);
  const minutes = Math.max(0, Math.floor((clock - date.getTime()) / MINUTE_MS));
  return (
    <time dateTime={at} title={formatTime(date)}>
      {minutes === 0 ? 'less than a minute' : formatDuration(minutes * MINUTE_MS)}
    </time>
  );
}
