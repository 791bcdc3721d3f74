import { Text } from '@mantine/core';
import { useSyncExternalStore } from 'react';
import { formatRelative, formatTime } from './format.ts';

const TICK_MS = 10_000;
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
