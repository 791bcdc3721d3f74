import { expect } from 'chai';
import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { buildTenant } from '../../../../support/factories.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../../../support/test-postgres.ts';
import { createSsoApp, insertProvider, proveDomain } from '../../../../support/sso/sso-support.ts';

/** Two servers behind one address, which sends each request to the server whose turn it is. */
class Balancer {
  readonly #server: http.Server;
  #servers: readonly string[] = [];
  /** Which server each request went to, with its path. */
  readonly turns: { server: number; path: string }[] = [];

  constructor() {
    this.#server = http.createServer((request, response) => {
      const server = this.turns.length % this.#servers.length;
      this.turns.push({ server, path: (request.url ?? '').split('?')[0] ?? '' });
      const { method = 'GET', headers } = request;
      const forwarded = http.request(
        `${this.#servers[server] ?? ''}${request.url ?? ''}`,
        { method, headers, agent: false },
        (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
        },
      );
      forwarded.on('error', () => response.destroy());
      request.pipe(forwarded);
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  between(...servers: string[]): void {
    this.#servers = servers;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

describe('a sign-in that begins on one server and ends on another', () => {
  const balancer = new Balancer();
  let database: TestDatabase;
  let apps: TestApp[];
  let idp: SamlIdp;
  let url: string;
  before(async () => {
    database = await createTestDatabase();
    url = await balancer.listen();
    const options = { database, env: { PUBLIC_URL: url } };
    apps = [await createSsoApp(options), await createSsoApp(options)];
    balancer.between(...apps.map((app) => app.url));
    idp = await startSamlIdp();
  });
  after(async () => {
    await Promise.all([...apps.map((app) => app.close()), idp.close(), balancer.close()]);
    await database.drop();
  });

  it('opens the same session, and its code works on either once', async () => {
    const [app] = apps;
    if (app === undefined) throw new Error('There is no server.');
    const { admin, partnerId, orgId } = await buildTenant(app);
    await proveDomain(app, orgId);
    await insertProvider(
      app,
      { partner_id: partnerId },
      { entity_id: idp.entityId, sso_url: idp.ssoUrl, certificate: idp.certificate },
    );
    idp.person = { nameId: admin.email };
    const browser = new BrowserClient({ ca: TEST_AUTHORITY });
    const form = await browser.open(`${url}/api/v1/sso/login/partner/${partnerId}`);
    const page = await browser.submit(form);
    expect(balancer.turns.slice(0, 3)).to.deep.equal([
      { server: 0, path: `/api/v1/sso/login/partner/${partnerId}` },
      { server: 1, path: '/api/v1/sso/saml/acs' },
      { server: 0, path: '/api/v1/sso/callback' },
    ]);
    const code = page.url.split('#ssoCode=')[1];
    const exchange = () =>
      fetch(`${url}/api/v1/sso/exchange`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      });
    const answers = await Promise.all(Array.from({ length: 6 }, exchange));
    const good = answers.filter(({ ok }) => ok);
    const [first] = good;
    expect([good.length, answers.filter(({ status }) => status === 400).length]).to.deep.equal([1, 5]);
    const { accessToken: token } = (await (first ?? Response.error()).json()) as { accessToken: string };
    for (const server of apps) {
      expect((await server.call('GET', '/auth/me', { token })).body.user.email).to.equal(admin.email);
    }
  });
});
