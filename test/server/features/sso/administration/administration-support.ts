import type { RequestListener } from 'node:http';
import { buildPerson, buildTenant, giveSecondFactor, type Person } from '../../../../support/factories.ts';
import { type HttpsServer, startHttpsServer } from '../../../../support/https-server.ts';
import type { Answer, TestApp } from '../../../../support/test-app.ts';
import { query } from '../../../../support/sso/sso-support.ts';

/** A tenant whose administrators have a second factor, without which nobody configures providers. */
export async function buildSsoTenant(app: TestApp) {
  const tenant = await buildTenant(app);
  const { orgId } = tenant;
  await giveSecondFactor(app, tenant.admin);
  return { ...tenant, orgAdmin: await buildPersonWithFactor(app, { scope: 'organization', orgId }) };
}
export type SsoTenant = Awaited<ReturnType<typeof buildSsoTenant>>;

export const buildPersonWithFactor = async (
  app: TestApp,
  membership: Parameters<typeof buildPerson>[1],
): Promise<Person> => giveSecondFactor(app, await buildPerson(app, membership));

/** Requests of one person about providers. */
export function requestsOf(app: TestApp, { token }: Pick<Person, 'token'>) {
  const call = (method: string, path: string, body?: object): Promise<Answer> =>
    app.call(method, path, { token, ...(body === undefined ? {} : { body }) });
  return {
    list: (parameters = '') => call('GET', `/sso/providers${parameters}`),
    read: (id: string) => call('GET', `/sso/providers/${id}`),
    create: (body: object) => call('POST', '/sso/providers', { name: 'Provider', type: 'oidc', ...body }),
    change: (id: string, body: object) => call('PATCH', `/sso/providers/${id}`, body),
    status: (id: string, status: string) => call('POST', `/sso/providers/${id}/status`, { status }),
    test: (id: string, body: object = {}) => call('POST', `/sso/providers/${id}/test`, body),
    remove: (id: string) => call('DELETE', `/sso/providers/${id}`),
  };
}

/**
 * For a suite whose tests need hostile or broken servers: the function starts one and returns its URL; each test stops
 * its own at its end.
 */
export function hostileServers(): (listener: RequestListener) => Promise<string> {
  const open: HttpsServer[] = [];
  afterEach(async () => {
    for (const server of open.splice(0)) await server.stop();
  });
  return async (listener) => {
    const server = await startHttpsServer(listener);
    open.push(server);
    return `https://127.0.0.1:${server.port}`;
  };
}

/** The row itself, with what no answer shows. */
export async function storedProvider(app: TestApp, id: string) {
  const [row] = await query<Record<string, unknown>>(app, 'select * from sso_providers where id = ?', [id]);
  return row ?? {};
}

/** Somebody has signed in with the provider as it is now. */
export const proveProvider = (app: TestApp, id: string) =>
  query(app, 'update sso_providers set last_success_at = now() where id = ?', [id]);

/** Status, code and what is wrong with which field. */
export const refusal = ({ status, body }: Answer) => [
  status,
  body.code,
  ...((body.details ?? []) as { path: string; message: string }[]).map(
    ({ path, message }) => `${path}: ${message}`,
  ),
];

/** Endpoints that are public by their address, so that nothing is asked of the network. */
export const ENDPOINTS = {
  authorizationUrl: 'https://1.1.1.1/authorize',
  tokenUrl: 'https://1.1.1.1/token',
  userInfoUrl: 'https://1.1.1.1/userinfo',
  jwksUrl: 'https://1.1.1.1/keys',
};
