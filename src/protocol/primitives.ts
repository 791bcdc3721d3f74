import { z } from 'zod';

/** An instant, ISO 8601 with an offset, normalised to UTC with milliseconds. */
export const Instant = z.iso
  .datetime({
    offset: true,
    error: 'must be an ISO 8601 date and time with an offset, such as 2026-01-31T08:00:00Z',
  })
  .transform((text) => new Date(text).toISOString())
  .meta({ format: 'date-time' });

/**
 * Text that a database keeps exactly as it was sent: without NUL and without halves of surrogate pairs, which would
 * make a whole batch of records fail.
 */
export const text = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine(
      (value) => value.isWellFormed() && !value.includes('\0'),
      'must not contain NUL characters or halves of surrogate pairs',
    );

export const OsType = z.enum(['windows', 'macos', 'linux']);
export type OsType = z.infer<typeof OsType>;

export const Architecture = z.enum(['x64', 'x86', 'arm64']);
export type Architecture = z.infer<typeof Architecture>;
