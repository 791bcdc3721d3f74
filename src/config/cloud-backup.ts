import { z } from 'zod';
import { defineArea } from './area.ts';
import { addresses } from './variables.ts';

const base = (example: string) =>
  z
    .string()
    .regex(/^https?:\/\/[^\s?#@]+$/, `must be a URL such as ${example}`)
    .refine((text) => URL.canParse(text), `must be a URL such as ${example}`)
    .default(example)
    .transform((text) => text.replace(/\/+$/, ''));

/** How this server reaches Microsoft 365. */
export const cloudBackupArea = defineArea({
  variables: {
    C2C_M365_CLIENT_ID: z
      .uuid('must be the id of an application, such as 6f1c3a52-7c1e-4e5e-9d0a-3f5f2a8f9b10')
      .toLowerCase()
      .optional()
      .describe(
        'Application of this server at Microsoft, to which administrators of tenants consent. Absent: each organization registers its own.',
      ),
    C2C_M365_CLIENT_SECRET: z
      .string()
      .min(1)
      .max(1000)
      .optional()
      .describe('The secret of that application.'),
    C2C_GRAPH_URL: base('https://graph.microsoft.com/v1.0').describe(
      'Microsoft Graph with its version; national clouds have others.',
    ),
    C2C_LOGIN_URL: base('https://login.microsoftonline.com').describe(
      'Where access to Microsoft Graph is given; national clouds have others.',
    ),
    C2C_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe('Internal addresses or ranges that these URLs, and files behind them, may lead to.'),
  },
  fromFile: ['C2C_M365_CLIENT_SECRET'],
  conflicts: (values) =>
    values['C2C_M365_CLIENT_ID'] !== undefined && values['C2C_M365_CLIENT_SECRET'] === undefined
      ? ['C2C_M365_CLIENT_SECRET must be set when C2C_M365_CLIENT_ID is']
      : [],
  settings: (env) => ({
    cloudBackup: {
      platformApp:
        env.C2C_M365_CLIENT_ID === undefined
          ? undefined
          : // `conflicts` rejects an id without a secret.
            { clientId: env.C2C_M365_CLIENT_ID, secret: env.C2C_M365_CLIENT_SECRET ?? '' },
      graphUrl: env.C2C_GRAPH_URL,
      loginUrl: env.C2C_LOGIN_URL,
      allowedPrivate: env.C2C_ALLOWED_PRIVATE_CIDRS ?? [],
    },
  }),
});
