import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:https';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { newId } from '../../src/platform/ids.ts';
import { clientSecretContext } from '../../src/features/sso/sso.model.ts';
import { createEncryptor } from '../../src/platform/secrets/sealed.ts';
import { BrowserClient } from '../../test/support/browser-client.ts';
import { TEST_AUTHORITY } from '../../test/support/https-server.ts';
import { startServerProcess } from '../../test/support/started-server.ts';
import { createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';
import type { Answer, Request } from './identity-provider.ts';

/**
 * `npm run bench:sso` measures sign-ins with a real identity provider (oidc-provider). Muster, the provider and the
 * browsers are processes of their own. The baseline is the provider alone: the same browser and the same exchange of the
 * code, by a client that checks and stores nothing.
 */

const PEOPLE = 100;
/** One after the other. */
const SEQUENCE = 40;
const KEY = 'a key of the benchmark that is long enough for it';
const CA_FILE = fileURLToPath(new URL('../../test/support/certificates/authority.pem', import.meta.url));

interface Registration {
  issuer: string;
  clientId: string;
  clientSecret: string;
}

const database = await createTestDatabase({ durable: true });
const provider = startProvider();
const server = await startServerProcess({
  DATABASE_URL: database.ownerUrl,
  DATABASE_URL_APP: database.appUrl,
  JWT_SECRET: KEY,
  SECRET_ENCRYPTION_KEY: KEY,
  LOG_LEVEL: 'info',
  SSO_ALLOWED_PRIVATE_CIDRS: '127.0.0.0/8',
  NODE_EXTRA_CA_CERTS: CA_FILE,
});
try {
  const url = server.url.replace('127.0.0.1', 'localhost');
  const redirectUri = `${url}/api/v1/sso/callback`;
  const registration = await started(redirectUri);
  const orgId = await insertOrganization(registration);
  const loginUrl = `${url}/api/v1/sso/login/${orgId}`;

  const throughMuster = async (n: number): Promise<void> => {
    const browser = browserOf(registration, n);
    const page = await browser.open(loginUrl);
    const code = page.url.split('#ssoCode=')[1];
    const answer = await fetch(`${url}/api/v1/sso/exchange`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    });
    browser.close();
    if (!answer.ok) throw new Error(`${page.url}: ${answer.status} ${await answer.text()}`);
    await answer.json();
  };
  const alone = (n: number) => bareSignIn(registration, redirectUri, n);

  // Warm: both programs compiled, all accounts made.
  for (let n = 0; n < PEOPLE; n++) await throughMuster(n);
  await forgetLimits();
  const ratios: number[] = [];
  for (let n = 0; n < SEQUENCE; n++) {
    const bare = await timed(() => alone(n));
    ratios.push((await timed(() => throughMuster(n))) / bare);
  }
  const people = Array.from({ length: PEOPLE }, (_, n) => n);
  await forgetLimits();
  const bareTogether = await Promise.all(people.map((n) => timed(() => alone(n))));
  const together = await Promise.all(people.map((n) => timed(() => throughMuster(n))));
  const figures = {
    'one after the other: time, of the provider alone': Number(quantile(ratios, 0.5).toFixed(2)),
    [`${PEOPLE} at once: p50 ms`]: Math.round(quantile(together, 0.5)),
    [`${PEOPLE} at once: p99 ms`]: Math.round(quantile(together, 0.99)),
    [`${PEOPLE} at once, provider alone: p99 ms`]: Math.round(quantile(bareTogether, 0.99)),
  };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  provider.kill('SIGKILL');
  server.child.kill('SIGTERM');
  await server.ended;
  await database.drop();
  await stopTestPostgres();
}

function startProvider(): ChildProcess {
  const run = fileURLToPath(new URL('../../src/run.mjs', import.meta.url));
  const script = fileURLToPath(new URL('identity-provider.ts', import.meta.url));
  return spawn(process.execPath, [run, script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
}

async function started(redirectUri: string): Promise<Registration> {
  const wanted: Request = { people: PEOPLE, redirectUri };
  await once(provider, 'message');
  provider.send(wanted);
  const [answer] = (await once(provider, 'message')) as [Answer];
  return answer;
}

/** The limits by address are counted in the server; this client is a hundred people behind one address. */
async function forgetLimits(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 61_000));
}

function browserOf({ issuer }: Registration, n: number): BrowserClient {
  const browser = new BrowserClient({ ca: TEST_AUTHORITY });
  browser.keep(`account=person-${n}; Path=/`, issuer);
  return browser;
}

async function bareSignIn(registration: Registration, redirectUri: string, n: number): Promise<void> {
  const { issuer, clientId, clientSecret } = registration;
  const verifier = randomBytes(48).toString('base64url');
  const browser = browserOf(registration, n);
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: 'openid profile email',
    state: randomBytes(32).toString('base64url'),
    nonce: randomBytes(32).toString('base64url'),
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const page = await browser.open(`${issuer}/auth?${query.toString()}`, { until: redirectUri });
  browser.close();
  const credentials = [clientId, clientSecret].map(encodeURIComponent).join(':');
  const answer = await send(`${issuer}/token`, {
    headers: {
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: new URL(page.url).searchParams.get('code') ?? '',
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }).toString(),
  });
  const { access_token: token } = JSON.parse(answer) as { access_token: string };
  await send(`${issuer}/me`, { headers: { authorization: `Bearer ${token}` } });
}

function send(
  url: string,
  { headers, body }: { headers: Record<string, string>; body?: string },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const sent = request(url, { method, headers, ca: TEST_AUTHORITY, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () =>
        response.statusCode === 200 ? resolve(text) : reject(new Error(`${url}: ${text}`)),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function insertOrganization({ issuer, clientId, clientSecret }: Registration): Promise<string> {
  const [partnerId, orgId, providerId, adminId] = [newId(), newId(), newId(), newId()];
  const sealed = createEncryptor({ current: KEY, old: [] }).seal(
    clientSecret,
    clientSecretContext(providerId),
  );
  const client = new pg.Client({ connectionString: database.ownerUrl });
  await client.connect();
  try {
    await client.query(
      `insert into partners (id, name, slug, status) values ($1, 'Bench', 'bench', 'active')`,
      [partnerId],
    );
    await client.query(
      `insert into organizations (id, partner_id, name, slug) values ($1, $2, 'Bench', 'bench')`,
      [orgId, partnerId],
    );
    await client.query(`insert into users (id, email, name) values ($1, 'admin@example.com', 'Admin')`, [
      adminId,
    ]);
    await client.query(
      `insert into partner_users (partner_id, user_id, role_id, org_access)
    values ($1, $2, '01900000-0000-7000-8000-000000000002', 'all')`,
      [partnerId, adminId],
    );
    await client.query(
      `insert into sso_providers (id, org_id, name, type, status, issuer, client_id, client_secret, authorization_url,
      token_url, userinfo_url, jwks_url, sends_issuer, attribute_mapping, default_role_id, default_role_configured_by)
    values ($1, $2, 'Bench', 'oidc', 'active', $3::text, $4, $5, $3::text || '/auth', $3::text || '/token', $3::text || '/me', $3::text || '/jwks', true,
      '{"email": "email", "name": "name"}', '01900000-0000-7000-8000-000000000007', $6)`,
      [providerId, orgId, issuer, clientId, sealed, adminId],
    );
  } finally {
    await client.end();
  }
  return orgId;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
