import { z } from 'zod';

/** The settings of a provider as the forms need them. The API answers them as any JSON, older ones too. */
const text = z.string().nullish().catch(undefined);

export const DAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;
export const DATE_FORMATS = ['YYYY-MM-DD', 'DD/MM/YYYY', 'MM/DD/YYYY'] as const;
export const TIME_FORMATS = ['24h', '12h'] as const;
export const HOURS = ['24/7', 'business', 'extended', 'custom'] as const;

const Day = z.object({ start: z.string(), end: z.string(), closed: z.boolean().default(false) });
export type Day = z.output<typeof Day>;

const Settings = z.object({
  timezone: text,
  dateFormat: z.enum(DATE_FORMATS).nullish().catch(undefined),
  timeFormat: z.enum(TIME_FORMATS).nullish().catch(undefined),
  businessHours: z
    .object({
      preset: z.enum(HOURS).optional().catch(undefined),
      custom: z.record(z.string(), Day).nullish().catch(undefined),
    })
    .nullish()
    .catch(undefined),
  contact: z.object({ name: text, email: text, phone: text, website: text }).nullish().catch(undefined),
  security: z
    .object({ ipAllowlist: z.array(z.string()).optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

export const readPartnerSettings = (stored: unknown): z.output<typeof Settings> =>
  Settings.catch({}).parse(stored);
