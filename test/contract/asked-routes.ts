import { expect } from 'chai';
import type { Scope } from '../../src/platform/db/tenant-scope.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import { refusesKeys } from '../../src/platform/http/authentication.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { newId } from '../../src/platform/ids.ts';
import { newToken } from '../../src/platform/secrets/tokens.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  giveSecondFactor,
  type Person,
} from '../support/factories.ts';
import { type CallOptions, createTestApp, type TestApp } from '../support/test-app.ts';
import {
  admissionOf,
  allRows,
  bodyKindOf,
  type Choice,
  hasId,
  kindOf,
  nameOf,
  pathKindOf,
} from './row-kinds.ts';

/**
 * What every row of the route table owes, asked of the running server. `routes.test.ts` declares these tests for one
 * row of each kind, `test/programs/contract/every-route.test.ts` for all.
 */

const filled = (row: AnyRoute, id = newId()) =>
  row.path.replaceAll(/:(\w+)/g, (_match, name: string) =>
    /^id$|Id$/.test(name) && name !== 'recordId' ? id : '1',
  );

/** An agent's route answers to its own device alone. */
const ofAgents = (row: AnyRoute) => row.access === 'agent';
/**
 * Reads by a body, of which SPEC 4.10 lets every field be left out; and the begin of a registration, which changes nothing
 * yet, and needs no password where the session has a second factor.
 */
const takesAllByDefault = (row: AnyRoute) =>
  ['/audit-logs/export', '/auth/passkeys/options'].includes(row.path);
const openTo = (row: AnyRoute, scope: Scope) =>
  !ofAgents(row) && (typeof row.access === 'string' || row.access.scopes.includes(scope));

/**
 * @param choose  which rows are asked: one of each kind, or all. What a single step of the pipeline answers is asked of
 * the rows that this step distinguishes.
 */
export function describeAskedRoutes(title: string, choose: Choice): void {
  const chosen = choose(allRows, kindOf);
  const admissions = choose(allRows, admissionOf);
  const paths = choose(allRows, pathKindOf);
  const bodies = choose(allRows, bodyKindOf);
  const rows = allRows.filter((row) =>
    [chosen, admissions, paths, bodies].some((asked) => asked.includes(row)),
  );

  describe(title, () => {
    let app: TestApp;
    let people: Record<Scope, Person>;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    let apiKey: string;
    let device: EnrolledDevice;

    before(async () => {
      app = await createTestApp({ env: { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' } });
      tenant = await buildTenant(app);
      people = {
        system: await buildPerson(app, { scope: 'system' }),
        partner: tenant.admin,
        organization: await buildPerson(app, { scope: 'organization', orgId: tenant.orgId }),
      };
      // Some routes ask for one.
      for (const person of Object.values(people)) await giveSecondFactor(app, person);
      const made = await app.call('POST', '/api-keys', {
        token: tenant.admin.token,
        body: { name: 'Contract', scopes: ['*:*'], rateLimit: 1_000_000 },
      });
      apiKey = made.body.key;
      device = await buildDevice(app, tenant.orgId);
    });
    after(async () => app.close());

    const ask = (row: AnyRoute, token?: string, where = filled(row)) =>
      app.call(row.method.toUpperCase(), where, { token, ...(row.body === undefined ? {} : { body: {} }) });

    /** Someone whom the route lets in, and where: an agent only at its own device. */
    const insider = (row: AnyRoute) => {
      if (ofAgents(row)) return { token: device.token, where: filled(row, device.deviceId) };
      const scope = (['partner', 'system', 'organization'] as const).find((one) => openTo(row, one))!;
      return { token: people[scope].token, where: filled(row) };
    };

    for (const row of chosen.filter(ofAgents)) {
      describe(`${nameOf(row)}, of agents`, () => {
        const refusal = async (token: string | undefined, id = device.deviceId) => {
          const { status, body } = await ask(row, token, filled(row, id));
          return [status, body.code];
        };

        it('answers 401 without a token, to a wrong one, to people and to API keys', async () => {
          const others = [...Object.values(people).map(({ token }) => token), apiKey];
          const wrong = [undefined, 'nonsense', newToken('agent'), `${device.token.slice(0, -2)}xx`];
          for (const token of [...wrong, ...others]) {
            expect(await refusal(token)).to.deep.equal([401, 'UNAUTHENTICATED']);
          }
        });

        it('answers 404 to the agent of another device, be it of another organization or the same', async () => {
          const elsewhere = await buildOrganization(app, tenant.partnerId);
          for (const orgId of [tenant.orgId, elsewhere]) {
            const other = await buildDevice(app, orgId);
            expect(await refusal(other.token)).to.deep.equal([404, 'NOT_FOUND']);
            expect(await refusal(device.token, other.deviceId)).to.deep.equal([404, 'NOT_FOUND']);
          }
          for (const id of [newId(), 'not-a-uuid', '%00', '..%2F..']) {
            expect(await refusal(device.token, id), id).to.deep.equal([404, 'NOT_FOUND']);
          }
        });

        it('answers 401 to the agent of a decommissioned device', async () => {
          const gone = await buildDevice(app, tenant.orgId);
          await app.call('DELETE', `/devices/${gone.deviceId}`, { token: tenant.admin.token });
          expect(await refusal(gone.token, gone.deviceId)).to.deep.equal([401, 'UNAUTHENTICATED']);
        });
      });
    }

    for (const row of rows) {
      describe(nameOf(row), () => {
        if (row.access !== 'public') {
          const wrong = () => ['nonsense', `${people.partner.token.slice(0, -2)}xx`];
          it('answers 401 without a token, and with a wrong one', async () => {
            for (const token of [undefined, ...(admissions.includes(row) ? wrong() : [])]) {
              const { status, body } = await ask(row, token);
              expect([status, body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
              expect(body.requestId).to.be.a('string');
            }
          });

          if (admissions.includes(row) && !ofAgents(row)) {
            it('answers 401 to an agent', async () => {
              const { status, body } = await ask(row, device.token, filled(row, device.deviceId));
              expect([status, body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
            });
          }

          const { access } = row;
          if (!admissions.includes(row)) {
            // One of its kind is asked.
          } else if (refusesKeys(access)) {
            it('answers 403 to an API key, whatever its scopes', async () => {
              const { status, body } = await ask(row, apiKey);
              expect([status, body.code]).to.deep.equal([403, 'FORBIDDEN']);
            });
          } else if (openTo(row, 'partner')) {
            it('lets an API key in', async () => {
              expect((await ask(row, apiKey)).status).to.be.oneOf([200, 201, 202, 400, 404, 409]);
            });
          }

          for (const scope of ['system', 'partner', 'organization'] as const) {
            if (ofAgents(row) || openTo(row, scope) || !admissions.includes(row)) continue;
            it(`answers 403 in ${scope} scope`, async () => {
              const { status, body } = await ask(row, people[scope].token);
              expect([status, body.code]).to.deep.equal([403, 'FORBIDDEN']);
            });
          }

          if (admissions.includes(row) && typeof access === 'object' && access.permission !== undefined) {
            it('answers 403 without the permission', async () => {
              const scope = (['organization', 'partner'] as const).find((candidate) =>
                openTo(row, candidate),
              )!;
              const membership = {
                role: await emptyRole(app, scope),
                orgId: tenant.orgId,
                partnerId: tenant.partnerId,
              };
              const powerless = await buildPerson(app, { scope, ...membership });
              const { status, body } = await ask(row, powerless.token);
              expect([status, body.code]).to.deep.equal([403, 'FORBIDDEN']);
              expect(body.error).to.contain(access.permission);
            });
          }

          if (admissions.includes(row) && typeof access === 'object' && access.mfa === true) {
            it('answers 403 to a session without a second factor', async () => {
              const { partnerId } = tenant;
              const membership = openTo(row, 'partner')
                ? ({ scope: 'partner', partnerId } as const)
                : ({ scope: 'system' } as const);
              const { token } = await buildPerson(app, membership);
              const { status, body } = await ask(row, token);
              expect([status, body.code]).to.deep.equal([403, 'MFA_REQUIRED']);
            });
          }

          // For agents see above.
          if (hasId(row) && !ofAgents(row) && (row.body === undefined || paths.includes(row))) {
            it('answers 404 for what does not exist, and for what cannot be an id', async () => {
              const scope = (['partner', 'system', 'organization'] as const).find((candidate) =>
                openTo(row, candidate),
              )!;
              // An invalid body is reported first, so these requests name something that does not exist.
              const unknown = row.body === undefined ? [newId()] : [];
              const impossible = paths.includes(row) ? ['not-a-uuid', "1' or '1'='1", '%00'] : [];
              for (const id of [...unknown, ...impossible]) {
                const { status, body } = await ask(
                  row,
                  people[scope].token,
                  filled(row, encodeURIComponent(id)),
                );
                expect([status, body.code], id).to.deep.equal([404, 'NOT_FOUND']);
              }
            });
          }
        }

        if (row.bodyType === 'form') {
          it('answers JSON and too large a form with the error body', async () => {
            const { token, where } = insider(row);
            const json = await ask(row, token, where);
            expect([json.status, json.body.code]).to.deep.equal([415, 'UNSUPPORTED_MEDIA_TYPE']);
            const large = await app.call(row.method.toUpperCase(), where, {
              rawBody: `padding=${'x'.repeat((row.bodyLimit ?? 100_000) + 1)}`,
              headers: { 'content-type': 'application/x-www-form-urlencoded' },
            });
            expect([large.status, large.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
          });
        } else if (row.body !== undefined) {
          const empty = row.body.safeParse({});
          if (empty.success && takesAllByDefault(row)) {
            it('takes an empty body, as nothing has to be said', async () => {
              const { token, where } = insider(row);
              expect((await ask(row, token, where)).status).to.equal(200);
            });
          } else if (empty.success && row.method === 'put') {
            it('takes an empty body, which clears what it replaces', async () => {
              const { token, where } = insider(row);
              expect((await ask(row, token, where)).status).to.equal(200);
            });
          } else if (empty.success) {
            it('changes nothing by an empty body', async () => {
              const { token, where } = insider(row);
              const { status } = await ask(row, token, where);
              // 401: the token that a body may hold is looked for in a cookie as well.
              expect(status).to.be.oneOf([400, 401, 404]);
            });
          } else {
            it('answers 400 to an empty body, naming each field that is missing', async () => {
              const { token, where } = insider(row);
              const { status, body } = await ask(row, token, where);
              expect([status, body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
              // A patch of which every field may be left out says so in the specification's words (SPEC 7).
              if (row.method === 'patch' && body.error === 'no fields provided') return;
              const missing = empty.error.issues.map((issue) => `body.${issue.path.join('.')}`);
              expect(body.details.map((issue: { path: string }) => issue.path)).to.deep.equal(missing);
            });
          }

          if (!bodies.includes(row)) return;
          it('answers malformed JSON, another type and too large a body with the error body', async () => {
            const { token, where } = insider(row);
            // Each from another address: registration counts every attempt.
            let last = 0;
            const send = ({ headers = {}, ...options }: CallOptions) =>
              app.call(row.method.toUpperCase(), where, {
                token,
                headers: { 'x-forwarded-for': `203.0.113.${++last}`, ...headers },
                ...options,
              });
            const malformed = await send({ rawBody: '{"a":' });
            expect([malformed.status, malformed.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
            const form = await send({
              rawBody: 'a=1',
              headers: { 'content-type': 'application/x-www-form-urlencoded' },
            });
            expect([form.status, form.body.code]).to.deep.equal([415, 'UNSUPPORTED_MEDIA_TYPE']);
            const large = await send({
              rawBody: JSON.stringify({ padding: 'x'.repeat((row.bodyLimit ?? 100_000) + 1) }),
            });
            expect([large.status, large.body.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
          });
        }
      });
    }

    it('answers with the error body if there is none', async () => {
      for (const where of ['/nope', '/devices/x/y/z', '/%']) {
        const { status, body } = await app.call('GET', where, { token: people.system.token });
        expect([status, body.code], where).to.deep.equal([404, 'NOT_FOUND']);
      }
    });

    it('takes a request id and makes one if none or an unfit one is sent', async () => {
      const given = await app.call('GET', '/auth/me', { headers: { 'x-request-id': 'trace-1' } });
      expect(given.headers.get('x-request-id')).to.equal('trace-1');
      expect(given.body.requestId).to.equal('trace-1');
      const unfit = await app.call('GET', '/auth/me', { headers: { 'x-request-id': 'a b\tc' } });
      expect(unfit.headers.get('x-request-id')).to.match(/^[0-9a-f-]{36}$/);
    });

    it('has logged nothing of all this as an error', () => {
      expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
    });
  });
}

async function emptyRole(app: TestApp, scope: 'organization' | 'partner'): Promise<string> {
  const id = newId();
  await withSystem(app.server.database.pool, 'test', (tx) =>
    tx('roles').insert({ id, scope, name: 'Nothing', permissions: [] }),
  );
  return id;
}
