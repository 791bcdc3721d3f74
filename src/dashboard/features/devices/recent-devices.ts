import { useMemo, useSyncExternalStore } from 'react';
import { z } from 'zod';

/** The devices that a person has opened last, in this browser. */
const RecentDevices = z.array(z.object({ id: z.uuid(), name: z.string() }));
export type RecentDevice = z.infer<typeof RecentDevices>[number];

const KEPT = 8;
const keyOf = (userId: string): string => `muster-recent-devices-${userId}`;
const watchers = new Set<() => void>();

/** If the storage of the browser is off, nothing is remembered. */
function stored(userId: string): string | null {
  try {
    return localStorage.getItem(keyOf(userId));
  } catch {
    return null;
  }
}

/** Entries of another form, such as those of an earlier Muster, are ignored. */
function parse(text: string | null): RecentDevice[] {
  try {
    return RecentDevices.parse(JSON.parse(text ?? '[]'));
  } catch {
    return [];
  }
}

export function rememberDevice(userId: string, device: RecentDevice): void {
  const others = parse(stored(userId)).filter(({ id }) => id !== device.id);
  try {
    localStorage.setItem(keyOf(userId), JSON.stringify([device, ...others].slice(0, KEPT)));
  } catch {
    return;
  }
  for (const callback of watchers) callback();
}

/** Newest first. */
export function useRecentDevices(userId: string): readonly RecentDevice[] {
  const text = useSyncExternalStore(watch, () => stored(userId));
  return useMemo(() => parse(text), [text]);
}

function watch(callback: () => void): () => void {
  watchers.add(callback);
  // Raised by the other tabs of the browser.
  window.addEventListener('storage', callback);
  return () => {
    watchers.delete(callback);
    window.removeEventListener('storage', callback);
  };
}
