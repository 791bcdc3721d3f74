import { useLocalStorage } from '@mantine/hooks';
import { z } from 'zod';

/** How entries are shown. Kept in this browser, for all devices. */
const Preferences = z.object({
  zone: z.enum(['local', 'utc', 'device']).catch('local'),
  wrap: z.boolean().catch(false),
  collapse: z.boolean().catch(false),
  order: z.enum(['newest', 'oldest']).catch('newest'),
  announce: z.boolean().catch(true),
});
export type Preferences = z.output<typeof Preferences>;

/** What the storage holds may be of another version, or written by anybody. */
export const parseStored =
  <S extends z.ZodType>(schema: S, otherwise: z.output<S>) =>
  (text: string | undefined): z.output<S> => {
    try {
      const parsed = schema.safeParse(JSON.parse(text ?? ''));
      return parsed.success ? parsed.data : otherwise;
    } catch {
      return otherwise;
    }
  };

export function usePreferences(): [Preferences, (change: Partial<Preferences>) => void] {
  const [preferences, set] = useLocalStorage<Preferences>({
    key: 'muster-log-viewer',
    defaultValue: Preferences.parse({}),
    deserialize: parseStored(Preferences, Preferences.parse({})),
    getInitialValueInEffect: false,
  });
  return [preferences, (change) => set({ ...preferences, ...change })];
}
