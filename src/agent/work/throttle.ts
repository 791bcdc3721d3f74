import { clock, type Timer } from '../../clock.ts';

/** The function to call with each new value, and one that sends the pending value at once. */
export interface Throttled<T> {
  push(value: T): void;
  /** For the last value, which must not be lost: it waits neither for the interval nor for the value on its way. */
  flush(): void;
}

/** Sends the latest value, at most once in `everyMs`, and only when the value before it has arrived. */
export function throttled<T>(everyMs: number, send: (value: T) => Promise<void>): Throttled<T> {
  let pending: [T] | undefined;
  let timer: Timer | undefined;
  let lastSentAt = -Infinity;
  let sending = 0;

  const sendPending = async (): Promise<void> => {
    clock.clear(timer);
    timer = undefined;
    if (pending === undefined) return;
    const [value] = pending;
    pending = undefined;
    lastSentAt = clock.monotonic();
    sending += 1;
    // A value that is lost is replaced by the next one.
    await send(value).catch(() => {});
    sending -= 1;
    sendWhenDue();
  };
  const sendWhenDue = (): void => {
    if (pending === undefined || timer !== undefined || sending > 0) return;
    const waitMs = lastSentAt + everyMs - clock.monotonic();
    if (waitMs <= 0) void sendPending();
    else timer = clock.setTimeout(() => void sendPending(), waitMs);
  };
  return {
    push(value) {
      pending = [value];
      sendWhenDue();
    },
    flush: () => void sendPending(),
  };
}
