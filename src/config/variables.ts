import { z } from 'zod';
import { databaseUrlFault } from '../database-url.ts';
import { parseRedisUrl, RedisUrlError } from '../redis-url.ts';
import type { Values } from './environment.ts';

/** The kinds of values that variables have. Each message names a good value. */

const YES = ['1', 'true', 'yes', 'on'];
const NO = ['0', 'false', 'no', 'off'];

export const isOn = (text: string | undefined) =>
  text !== undefined && YES.includes(text.trim().toLowerCase());

export const flag = (byDefault: boolean) =>
  z
    .string()
    .default(String(byDefault))
    .transform((text, context) => {
      const word = text.trim().toLowerCase();
      if (YES.includes(word)) return true;
      if (NO.includes(word)) return false;
      context.addIssue({ code: 'custom', message: `must be one of ${[...YES, ...NO].join(', ')}` });
      return z.NEVER;
    });

export const whole = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .default(String(byDefault))
    .transform((text, context) => {
      const value = Number(text);
      if (/^\d+$/.test(text) && value >= min && value <= max) return value;
      context.addIssue({
        code: 'custom',
        message: `must be a whole number from ${min} to ${max}, such as ${byDefault}`,
      });
      return z.NEVER;
    });

export const postgresUrl = z
  .string()
  .superRefine((text, context) => {
    const message = databaseUrlFault(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .optional();

export const redisUrl = z.string().superRefine((text, context) => {
  try {
    parseRedisUrl(text);
  } catch (error) {
    if (!(error instanceof RedisUrlError)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
  }
});

export const secret = (bytes: number) =>
  z
    .string()
    .min(bytes, `must have at least ${bytes} characters; make one with: openssl rand -base64 48`)
    .optional();

const Address = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'must be an address or a range, such as 10.0.0.0/8',
);

export const addresses = (example: string) =>
  z
    .string()
    .transform((text) => text.split(',').map((entry) => entry.trim()))
    .pipe(z.array(Address, `must be addresses or ranges, separated by commas, such as ${example}`));

/** Some variables that belong together, and the part of the configuration that follows from them. */
interface Area<Shape extends z.ZodRawShape, Settings> {
  /** By name, in the order of `.env.example`. */
  variables: Shape;
  /** Variables whose value may be in a file instead, which `<name>_FILE` names. */
  fromFile: readonly (keyof Shape & string)[];
  /**
   * What the variables require of each other. It only checks which are set, so that an invalid value elsewhere does not
   * hide it.
   */
  conflicts: (values: Values) => string[];
  settings: (env: z.output<z.ZodObject<Shape>>) => Settings;
}

export function defineArea<Shape extends z.ZodRawShape, Settings>({
  fromFile = [],
  conflicts = () => [],
  ...area
}: Pick<Area<Shape, Settings>, 'variables' | 'settings'> & Partial<Area<Shape, Settings>>): Area<
  Shape,
  Settings
> {
  return { fromFile, conflicts, ...area };
}
