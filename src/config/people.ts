import { z } from 'zod';
import { EmailAddress } from '../email-address.ts';
import { defineArea } from './area.ts';

const publicUrl = z
  .url({ protocol: /^https?$/, error: 'must be a URL such as https://rmm.example.com' })
  .optional();

/** How people reach this server and are reached by it, and the first of them. */
export const peopleArea = defineArea({
  variables: {
    SVC_ADMIN_EMAIL: EmailAddress.optional().describe('First system administrator of an empty database.'),
    SVC_ADMIN_PASSWORD: z
      .string()
      .min(8, 'must have at least 8 characters')
      .optional()
      .describe('Password of that administrator.'),
    PUBLIC_URL: publicUrl.describe(
      'Address under which people reach this server, for links in mails; https makes cookies Secure. Absent: the next two, then the address that it listens on.',
    ),
    PUBLIC_APP_URL: publicUrl.describe('Used where PUBLIC_URL is absent.'),
    DASHBOARD_URL: publicUrl.describe('Used where the two above are absent.'),
    SAML_ENTITY_ID: z
      .string()
      .regex(/^[a-z][a-z0-9+.-]*:[^\s<>"]{1,1000}$/i, 'must be a URI such as https://rmm.example.com/saml')
      .optional()
      .describe(
        'Name under which SAML identity providers know this server. Absent: the address of its metadata.',
      ),
    NODE_ENV: z
      .string()
      .optional()
      .describe('Where the three above are absent, `production` makes cookies Secure.'),
    DEPLOYMENT: z
      .enum(['self-hosted', 'hosted'], 'must be self-hosted or hosted')
      .default('self-hosted')
      .describe(
        'The kind of deployment. On a self-hosted server with a single active partner, the login page shows the branding and the single sign-on of that partner.',
      ),
    SMTP_URL: z
      .url({
        protocol: /^smtps?$/,
        error: 'must be a URL such as smtp://user:password@mail.example.com:587',
      })
      .optional()
      .describe('Mail server. Absent: mails are written to the folder mail of DATA_DIR.'),
    SMTP_FROM: z
      .string()
      .regex(/^[^\r\n]*[^\s@]+@[^\s@]+$/, 'must be an address such as Muster <muster@example.com>')
      .default('Muster <muster@localhost>')
      .describe('Sender of mails.'),
  },
  fromFile: ['SVC_ADMIN_PASSWORD', 'SMTP_URL'],
  conflicts: (values) =>
    (values['SVC_ADMIN_EMAIL'] === undefined) === (values['SVC_ADMIN_PASSWORD'] === undefined)
      ? []
      : ['SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD go together; set both or neither'],
  settings(env) {
    const { SVC_ADMIN_EMAIL: email, SVC_ADMIN_PASSWORD: password } = env;
    const url = env.PUBLIC_URL ?? env.PUBLIC_APP_URL ?? env.DASHBOARD_URL;
    return {
      firstAdmin: email !== undefined && password !== undefined ? { email, password } : undefined,
      publicUrl: url,
      samlEntityId: env.SAML_ENTITY_ID,
      isSelfHosted: env.DEPLOYMENT === 'self-hosted',
      // Over http a browser would drop a Secure cookie, and with it every sign-in.
      secureCookies: url === undefined ? env.NODE_ENV === 'production' : new URL(url).protocol === 'https:',
      mail: { smtpUrl: env.SMTP_URL, from: env.SMTP_FROM },
    };
  },
});
