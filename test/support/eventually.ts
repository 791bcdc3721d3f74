/** Waits until `read` answers something that `fits`, which must happen within `withinMs`. */
export async function eventually<T>(
  read: () => Promise<T> | T,
  fits: (value: T) => boolean,
  withinMs = 30_000,
): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const value = await read();
    if (fits(value)) return value;
    if (Date.now() > deadline) {
      throw new Error(`did not happen within ${withinMs} ms; last: ${JSON.stringify(value)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
