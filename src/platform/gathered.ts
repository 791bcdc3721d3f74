interface Asker<V> {
  resolve: (value: V | undefined) => void;
  reject: (error: unknown) => void;
}

/**
 * Answers with one look whoever asks within the same few milliseconds, or while the look before is under way; who asks
 * for the same shares the answer.
 * @param load  answers for all keys at once; what it leaves out is `undefined`
 */
export function gathered<K, V>(
  load: (keys: readonly K[]) => Promise<ReadonlyMap<K, V>>,
  { withinMs, atMost }: { withinMs: number; atMost: number },
): (key: K) => Promise<V | undefined> {
  const waiting = new Map<K, Asker<V>[]>();
  let isUnderWay = false;

  const look = async () => {
    const askers = [...waiting].slice(0, atMost);
    for (const [key] of askers) waiting.delete(key);
    try {
      const found = await load(askers.map(([key]) => key));
      for (const [key, those] of askers) for (const asker of those) asker.resolve(found.get(key));
    } catch (error) {
      for (const [, those] of askers) for (const asker of those) asker.reject(error);
    }
  };
  const lookAtAll = async () => {
    while (waiting.size > 0) await look();
    isUnderWay = false;
  };

  return (key) =>
    new Promise((resolve, reject) => {
      const asker = { resolve, reject };
      const those = waiting.get(key);
      if (those === undefined) waiting.set(key, [asker]);
      else those.push(asker);
      if (isUnderWay) return;
      isUnderWay = true;
      setTimeout(() => void lookAtAll(), withinMs);
    });
}
