import { useMemo, useState } from 'react';
import type { z } from 'zod';

function read<T>(key: string, schema: z.ZodType<T>): T | undefined {
  try {
    const parsed = schema.safeParse(JSON.parse(localStorage.getItem(key) ?? 'null'));
    return parsed.success ? parsed.data : undefined;
  } catch {
    // The storage of the browser is off, or its content has another form.
    return undefined;
  }
}

/** A choice that this browser remembers. What does not fit the schema counts as not chosen. */
export function useRemembered<T>(key: string, schema: z.ZodType<T>): [T | undefined, (value: T) => void] {
  const stored = useMemo(() => read(key, schema), [key, schema]);
  const [chosen, setChosen] = useState<{ key: string; value: T }>();
  const remember = (value: T) => {
    setChosen({ key, value });
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // Then it holds until the page is closed.
    }
  };
  return [chosen?.key === key ? chosen.value : stored, remember];
}
