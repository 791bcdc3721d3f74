import { inflateRawSync } from 'node:zlib';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildTenant } from '../../../../support/factories.ts';
import type { Asked } from '../../../../support/saml-forge.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { browserUrl, createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

export const IDP = 'https://idp.example.com/metadata';

/** A server with a SAML provider, whose answers a test makes up. */
export interface SamlServer {
  app: TestApp;
  providerId: string;
  /** Begins a sign-in in a new browser. */
  begin(): Promise<Browser>;
  close(): Promise<void>;
}

export interface Browser {
  asked: Asked;
  state: string;
  /** Brings a form to the ACS, as the provider's page makes a browser do. The cookie stays behind. */
  post(form: readonly (readonly [string, string])[]): Promise<{ status: number; location: string }>;
  /** Follows to the callback, with the cookie. */
  follow(location: string): Promise<URL>;
  /** Both: why the sign-in failed; `undefined` where the person is signed in. */
  answered(samlResponse: string): Promise<string | undefined>;
}

export async function startSamlServer(row: Record<string, unknown> = {}): Promise<SamlServer> {
  // Each browser has an address of its own, so that none meets the limits of another.
  const app = await createSsoApp({
    env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' },
  });
  const { orgId, admin } = await buildTenant(app);
  const providerId = await insertProvider(
    app,
    { org_id: orgId },
    { entity_id: IDP, default_role_configured_by: admin.id, ...row },
  );
  await query(
    app,
    `insert into sso_domains (id, org_id, domain, status, token, verified_at) values (?, ?, 'example.com', 'verified', '', now())`,
    [newId(), orgId],
  );
  let browsers = 0;
  return {
    app,
    providerId,
    close: () => app.close(),
    async begin() {
      const client = { 'x-forwarded-for': `198.51.${100 + Math.floor(++browsers / 250)}.${browsers % 250}` };
      const get = (url: string, headers = {}) =>
        fetch(url, { redirect: 'manual', headers: { ...client, ...headers } });
      const login = await get(`${app.url}/api/v1/sso/login/${orgId}`);
      const { searchParams } = new URL(login.headers.get('location') ?? '');
      const request = inflateRawSync(Buffer.from(searchParams.get('SAMLRequest') ?? '', 'base64')).toString();
      const state = searchParams.get('RelayState') ?? '';
      const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
      const browser: Browser = {
        asked: {
          requestId: / ID="([^"]+)"/.exec(request)?.[1] ?? '',
          acsUrl: `${browserUrl(app)}/api/v1/sso/saml/acs`,
          audience: `${browserUrl(app)}/api/v1/sso/saml/metadata`,
          issuer: IDP,
        },
        state,
        async post(form) {
          const answer = await fetch(`${app.url}/api/v1/sso/saml/acs`, {
            method: 'POST',
            redirect: 'manual',
            headers: { ...client, 'content-type': 'application/x-www-form-urlencoded' },
            body: new URLSearchParams(
              form.map(([name, value]): [string, string] => [name, value]),
            ).toString(),
          });
          return { status: answer.status, location: answer.headers.get('location') ?? '' };
        },
        async follow(location) {
          const answer = await get(location.replace(browserUrl(app), app.url), { cookie });
          return new URL(answer.headers.get('location') ?? '');
        },
        async answered(samlResponse) {
          const { location } = await browser.post([
            ['SAMLResponse', samlResponse],
            ['RelayState', state],
          ]);
          const next = new URL(location);
          // The login page at once, where no sign-in of that state is under way.
          const end = next.pathname === '/login' ? next : await browser.follow(location);
          return end.hash.startsWith('#ssoCode=') ? undefined : (end.searchParams.get('reason') ?? end.href);
        },
      };
      return browser;
    },
  };
}
