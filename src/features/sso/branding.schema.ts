import { z } from 'zod';
import { text, Timestamp } from '../../platform/http/fields.ts';
import { LOGO_MAX_BYTES, readLogo } from './logo.ts';

const Branding = z.object({
  logoUrl: z.string().nullable().describe('An https:// URL, or a data: URI of a PNG, JPEG or WebP image.'),
  accentColor: z.string().nullable(),
  headline: z.string().nullable(),
});

export const LoginBranding = Branding.extend({ updatedAt: Timestamp.nullable() }).meta({
  id: 'LoginBranding',
});

const Logo = z
  .string()
  .transform((sent, context) => {
    const logo = readLogo(sent);
    if ('url' in logo) return logo.url;
    context.addIssue({ code: 'custom', message: logo.fault });
    return z.NEVER;
  })
  .describe(
    `An https:// URL, or a base64 data: URI of a PNG, JPEG or WebP image of at most ${LOGO_MAX_BYTES / 1024} kB.`,
  );

/** Includes line breaks, and marks that change the direction of the text after them. */
const CONTROL = /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

export const LoginBrandingInput = z.strictObject({
  logoUrl: Logo.optional(),
  accentColor: z
    .string()
    .regex(/^#[\da-f]{6}$/i, 'must be a color such as #1a2b3c')
    .toLowerCase()
    .optional(),
  headline: text(120)
    .refine((value) => !CONTROL.test(value), 'must not contain control characters')
    .optional(),
});
export type LoginBrandingInput = z.infer<typeof LoginBrandingInput>;

export const LoginContext = z
  .object({
    branding: Branding.nullable(),
    partnerSso: z
      .object({ providerName: z.string(), loginUrl: z.string(), enforceSSO: z.boolean() })
      .nullable(),
  })
  .meta({ id: 'LoginContext' });
export type LoginContext = z.infer<typeof LoginContext>;
