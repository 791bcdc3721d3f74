import { expect } from 'chai';
import { raisedAlert } from '../support/raised-alert.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { newId } from '../../src/platform/ids.ts';
import {
  buildDevice,
  buildEnrollmentKey,
  buildPerson,
  buildTenant,
  giveSecondFactor,
} from '../support/factories.ts';
import { type Answer, createTestApp, type TestApp } from '../support/test-app.ts';
import {
  BAD_BODIES,
  badValues,
  parsedBody,
  type Body,
  fieldsOfBodies,
  fieldsOfQueries,
  goodBody,
  HOSTILE_ADDRESS,
  type Ids,
  isNamed,
  NO_IDS,
  sample,
  SSO_ENDPOINTS,
} from './bad-values.ts';
import {
  allRows as rows,
  bodyKindOf,
  type Choice,
  type Field,
  fieldKindOf,
  nameOf,
  pathKindOf,
  shapeOf,
} from './row-kinds.ts';

/**
 * What no client should send, in every field of every route. The rule: a 400 that names the field, or stored exactly
 * as sent; and never a 500. A body is made from the row's own schema, right in all but the field that is tried.
 * `bad-input.test.ts` declares these tests for one field of each kind, `test/programs/contract/every-body.test.ts` for
 * all.
 */

/** Names are stored in the composed form (docs/decisions/text-from-others.md). */
const inNfc = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(JSON.stringify(value).normalize('NFC'));

const refusedBefore = new Set([401, 403, 404, 409, 429]);

/**
 * One value after the other, and again from the first. One mechanism answers what a schema refuses, whatever the row and
 * the field: each field is asked once with such a value, and over all rows the mechanism is asked with every value.
 */
function inTurn<Value>(values: readonly Value[]): () => Value {
  let at = 0;
  return () => values[at++ % values.length]!;
}

export function describeBadInput(title: string, choose: Choice): void {
  describe(title, () => {
    let app: TestApp;
    let ids: Record<string, string>;
    let encryptionKeyId: string;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    /** By the path of the row: one device may not send all that these tests send. */
    const agentTokens = new Map<string, string>();

    before(async () => {
      app = await createTestApp();
      tenant = await buildTenant(app);
      const { token } = tenant.admin;
      const made = async (path: string, body: Body) =>
        (await app.call('POST', path, { token, body })).body.id as string;
      const other = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
      const device = await buildDevice(app, tenant.orgId);
      const raised = (kind: string) =>
        withSystem(app.server.database.pool, 'test', (tx) =>
          raisedAlert(tx, { orgId: tenant.orgId, kind, severity: 'low', title: 'Title', message: 'Message' }),
        );
      const provider = await app.call('POST', '/sso/providers', {
        token: (await giveSecondFactor(app, tenant.admin)).token,
        body: { orgId: tenant.orgId, name: 'Provider', type: 'oidc', ...SSO_ENDPOINTS },
      });
      encryptionKeyId = await made('/backup/encryption/keys', { orgId: tenant.orgId, name: 'Key' });
      const sources = { paths: { linux: ['/home'] } };
      ids = {
        '/backup/configs/:id': await made('/backup/configs', {
          orgId: tenant.orgId,
          name: 'Documents',
          provider: 'server',
          encryptionKeyId,
          sources,
        }),
        '/dr/plans/:id': await made('/dr/plans', { orgId: tenant.orgId, name: 'Recovery' }),
        '/devices/:id/inventory': device.deviceId,
        '/devices/:id/software': device.deviceId,
        '/devices/:id/software/changes': device.deviceId,
        '/devices/:id/diagnostic-logs': device.deviceId,
        '/devices/:id/eventlogs': device.deviceId,
        '/devices/:id/commands': device.deviceId,
        '/orgs/sites/:id': tenant.siteId,
        '/orgs/organizations/:id': tenant.orgId,
        '/orgs/organizations/:id/audit-retention': tenant.orgId,
        '/orgs/organizations/:id/log-retention': tenant.orgId,
        '/orgs/organizations/:id/metric-retention': tenant.orgId,
        '/alerts/:id/acknowledge': await raised('first_kind'),
        '/alerts/:id/resolve': await raised('second_kind'),
        '/orgs/partners/:id': tenant.partnerId,
        '/devices/:id': device.deviceId,
        '/devices/:id/maintenance': device.deviceId,
        '/devices/:id/move': device.deviceId,
        '/custom-fields/:id': await made('/custom-fields', {
          orgId: tenant.orgId,
          key: 'asset',
          name: 'Asset',
          type: 'string',
        }),
        '/users/:id': other.id,
        '/users/:id/role': other.id,
        '/roles/:id': await made('/roles', {
          name: 'Reader',
          scope: 'partner',
          permissions: ['devices:read'],
        }),
        '/api-keys/:id': await made('/api-keys', { name: 'Key', scopes: ['devices:read'] }),
        '/sso/providers/:id': provider.body.id as string,
        '/webhooks/:id': await made('/webhooks', {
          orgId: tenant.orgId,
          name: 'Hook',
          url: 'https://1.1.1.1/hook',
          eventTypes: ['alert.raised'],
        }),
        '/maintenance-windows/:id': await made('/maintenance-windows', {
          orgId: tenant.orgId,
          name: 'Window',
          target: { all: true },
          timezone: 'UTC',
          start: '2100-01-01T00:00',
          durationMinutes: 60,
        }),
      };
      Object.assign(ids, {
        '/notification-channels/:id': await made('/notification-channels', {
          orgId: tenant.orgId,
          name: 'Channel',
          type: 'email',
          details: { address: 'ada@example.com' },
        }),
        '/reports/schedules/:id': await made('/reports/schedules', {
          orgId: tenant.orgId,
          name: 'Reports',
          dayOfMonth: 1,
          time: '08:30',
          timezone: 'UTC',
          userIds: [],
          addresses: ['ada@example.com'],
        }),
        '/notification-policies/:id': await made('/notification-policies', {
          name: 'Policy',
          steps: [{ afterMinutes: 0, userIds: [tenant.admin.id] }],
        }),
      });
      for (const { path } of rows.filter(({ access }) => access === 'agent')) {
        const agent = await buildDevice(app, tenant.orgId);
        ids[path] = agent.deviceId;
        agentTokens.set(path, agent.token);
      }
    });
    after(async () => app.close());

    const shared = new Map<string, Promise<string>>();
    /** A person whom the row lets in: of their own for the rows that change who one is. */
    async function tokenFor(row: AnyRoute): Promise<string | undefined> {
      if (row.access === 'public') return undefined;
      if (row.access === 'agent') return agentTokens.get(row.path);
      if (typeof row.access === 'string') return newToken('partner');
      const scope = row.access.scopes.includes('partner') ? 'partner' : 'system';
      const token = shared.get(scope) ?? newToken(scope);
      shared.set(scope, token);
      return token;
    }

    async function newToken(scope: 'partner' | 'system'): Promise<string> {
      const membership = scope === 'system' ? { scope } : { scope, partnerId: tenant.partnerId };
      return (await giveSecondFactor(app, await buildPerson(app, membership))).token;
    }

    const at = (row: AnyRoute) => row.path.replace(/:\w+/g, () => ids[row.path] ?? newId());

    /** What a right body of the row names. */
    const existing = async (row: AnyRoute): Promise<Ids> => ({
      ...tenant,
      personId: tenant.admin.id,
      deviceId: ids['/devices/:id/commands'],
      encryptionKeyId,
      enrollmentKey:
        row.path === '/agents/enroll' ? await buildEnrollmentKey(app, tenant.orgId) : NO_IDS.enrollmentKey,
    });

    /** The rule, for one field. */
    function judge(
      row: AnyRoute,
      field: string,
      body: Body,
      { status, body: answer }: Answer,
      what: string,
    ): void {
      const description = `${nameOf(row)}: ${field} with ${what} answered ${status} ${JSON.stringify(answer).slice(0, 300)}`;
      expect(status, description).to.be.lessThan(500);
      // Null where none is taken leaves the field out, so that the answer is about the rest.
      const isLeftOut =
        body[field] === null &&
        row.body?.safeParse(body).success === false &&
        parsedBody(row, body)?.success === true;
      if (status === 400 && !isLeftOut) {
        const paths = (answer.details as { path: string }[] | undefined)?.map(({ path }) => path) ?? [];
        expect(
          paths.some((path) => path.startsWith(`body.${field}`)),
          description,
        ).to.equal(true);
        return;
      }
      if (status === 400 || status === 413 || refusedBefore.has(status)) return;
      expect(status, description).to.be.within(200, 299);
      expect(parsedBody(row, body)?.success, description).to.equal(true);
      if (typeof answer === 'object' && answer !== null && field in answer && !isLeftOut) {
        expect(inNfc(answer[field]), description).to.deep.equal(inNfc(body[field]));
      }
    }

    // The form of a web page has texts only, and its route answers with a redirect (test/server/features/sso/saml/acs.test.ts).
    const withJson = rows.filter(({ body, bodyType }) => body !== undefined && bodyType !== 'form');
    const fields = choose(fieldsOfBodies(withJson), fieldKindOf);
    const parameters = choose(fieldsOfQueries(rows), fieldKindOf);
    const of = (row: AnyRoute, all: readonly Field[]) => all.filter((field) => nameOf(field) === nameOf(row));

    let turn = 0;
    const nextBody = inTurn(Object.entries(BAD_BODIES));
    const nextAddress = inTurn(HOSTILE_ADDRESS);
    const nextPath = inTurn([...HOSTILE_ADDRESS, '%', newId().slice(1)]);

    for (const row of withJson.filter((each) => of(each, fields).length > 0)) {
      it(`in the body of ${nameOf(row)} is named, or stored as it is`, async () => {
        const token = await tokenFor(row);
        const body = goodBody(row, await existing(row));
        const send = (fresh: Body) => app.call(row.method.toUpperCase(), at(row), { token, body: fresh });
        for (const { field, shape } of of(row, fields)) {
          const refused: [fresh: Body, what: string][] = [];
          for (const [what, value] of badValues(field, shape)) {
            // What must be unique is new each time, so that no try is refused for the one before it.
            const fresh = { ...body, ...('slug' in body ? { slug: `slug-${newId()}` } : {}), [field]: value };
            if (isNamed(row, field, fresh)) refused.push([fresh, what]);
            else judge(row, field, fresh, await send(fresh), what);
          }
          const [fresh, what] = refused[(turn += 1) % Math.max(refused.length, 1)] ?? [];
          if (fresh !== undefined) judge(row, field, fresh, await send(fresh), String(what));
        }
      });
    }

    for (const row of choose(withJson, bodyKindOf)) {
      it(`twice under one key in the body of ${nameOf(row)} is named`, async () => {
        const token = await tokenFor(row);
        const body = goodBody(row, await existing(row));
        const [first] = Object.keys(body);
        const twice = JSON.stringify(body).replace(
          /^\{/,
          `{"${first}":${JSON.stringify(body[first ?? ''] ?? null)},`,
        );
        const answer = await app.call(row.method.toUpperCase(), at(row), { token, rawBody: twice });
        if (refusedBefore.has(answer.status) || first === undefined) return;
        expect([answer.status, answer.body.details?.[0]?.path]).to.deep.equal([400, `body.${first}`]);
      });

      it(`as the body of ${nameOf(row)} is refused`, async () => {
        const token = await tokenFor(row);
        const [what, rawBody] = nextBody();
        const { status, body } = await app.call(row.method.toUpperCase(), at(row), { token, rawBody });
        // No body, and none to speak of, is an empty one; where that will do there is nothing to refuse.
        const willDo = row.body?.safeParse({}).success === true && /^(null)?$/.test(rawBody);
        if (willDo && [200, 401, 409].includes(status)) return;
        expect(status, what).to.be.oneOf([400, 403, 404, 413, 429]);
        expect(body, what).to.include.keys('error', 'code', 'requestId');
      });
    }

    for (const row of rows.filter((each) => of(each, parameters).length > 0)) {
      it(`in the query of ${nameOf(row)} is named, or finds nothing`, async () => {
        const token = await tokenFor(row);
        const { properties = {}, required = [] } = shapeOf(row.query!);
        const known = await existing(row);
        for (const { field, takes } of of(row, parameters)) {
          const others = required
            .filter((name) => name !== field)
            .map(
              (name) => `&${name}=${encodeURIComponent(String(sample(name, properties[name] ?? {}, known)))}`,
            );
          for (const value of new Set([...takes, nextAddress(), `a&${field}=b`])) {
            const where = `${at(row)}?${field}=${value}${others.join('')}`;
            const { status, body } = await app.call(row.method.toUpperCase(), where, { token });
            expect(status, `${field}=${value.slice(0, 20)}: ${JSON.stringify(body)}`).to.be.oneOf([
              200, 400, 403, 404, 409,
            ]);
            if (status === 400) {
              const paths = (body.details as { path: string }[]).map(({ path }) => path);
              expect(
                paths.some((path) => path.startsWith(`query.${field}`)),
                JSON.stringify(body),
              ).to.equal(true);
            }
          }
        }
      });
    }

    const withParameters = rows.filter(({ params }) => params !== undefined);
    for (const row of choose(withParameters, pathKindOf)) {
      it(`in the path of ${nameOf(row)} finds nothing`, async () => {
        const token = await tokenFor(row);
        const value = nextPath();
        // Together no longer than the headers of a request may be.
        const longest = 12_000 / row.path.split(':').length;
        const path = row.path.replace(/:\w+/g, value.slice(0, longest));
        const { status, body } = await app.call(row.method.toUpperCase(), path, { token });
        expect(`${status} ${body.code}`, value.slice(0, 20)).to.equal('404 NOT_FOUND');
      });
    }
  });
}
