import type { CommandIo } from '../io.ts';

/** Ctrl+C ends the work in order the first time, and the program the second time. */
export async function interruptible<T>(
  io: CommandIo,
  work: (interrupted: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stopListening = io.onInterrupt(() => controller.abort());
  try {
    return await work(controller.signal);
  } finally {
    stopListening();
  }
}

/** Resolves when the signal is given. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
