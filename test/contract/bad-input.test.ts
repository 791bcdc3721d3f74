import { expect } from 'chai';
import { z } from 'zod';
import { SYSTEM_ROLES } from '../../src/features/users/index.ts';
import { raiseAlert } from '../../src/features/alerts/index.ts';
import { routesAsData } from '../../src/features/index.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import {
  buildDevice,
  buildEnrollmentKey,
  buildPerson,
  buildTenant,
  giveSecondFactor,
  PASSWORD,
} from '../support/factories.ts';
import { signingKey } from '../support/saml-certificates.ts';
import { type Answer, createTestApp, type TestApp } from '../support/test-app.ts';

/**
 * What no client should send, in every field of every route. The rule: a 400 that names the field, or stored exactly
 * as sent; and never a 500. A body is made from the row's own schema, right in all but the field that is tried.
 */

interface Shape {
  type?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Shape[];
  oneOf?: Shape[];
  items?: Shape;
  minimum?: number;
  properties?: Record<string, Shape>;
  required?: string[];
}
type Body = Record<string, unknown>;

const rows = routesAsData().flatMap(({ routes }) => routes);
const nameOf = (row: AnyRoute) => `${row.method.toUpperCase()} ${row.path}`;

const HOSTILE_TEXT = {
  '10,000 characters': 'x'.repeat(10_000),
  'a NUL': 'a\0b',
  'a high surrogate alone': 'a\ud800b',
  'a low surrogate alone': 'a\udc00b',
  'right-to-left marks': 'a\u202ebc\u200f',
  'an emoji, and marks that join': 'e\u0301👩‍👩‍👧',
  nothing: '',
  blanks: ' \t ',
  'a slash': 'a/b/../c',
  'what SQL and LIKE take for more': `%_\\'; drop table users; --`,
  'a name of every object': '__proto__',
};
const NO_TEXT = {
  'an array': ['x'],
  'an object': { x: 'y' },
  'a number': 7,
  null: null,
  'a hundred arrays in another': JSON.parse('['.repeat(100) + ']'.repeat(100)) as unknown,
};
const NO_DATE = [
  'tomorrow',
  '2026-13-01T00:00:00Z',
  '2026-02-30T00:00:00Z',
  '2026-01-01T25:00:00Z',
  '21/11/2026',
  '20260101T000000Z',
  '1e3',
  1_700_000_000_000,
  '+275760-09-13T00:00:00.001Z',
];
const BODIES = {
  'no JSON': '{"name": ',
  null: 'null',
  'an array': '[]',
  'a string': '"x"',
  nothing: '',
  'fifty thousand arrays': '['.repeat(45_000) + ']'.repeat(45_000),
  'half of a character': Buffer.from([0x22, 0xff, 0xfe, 0x22]).toString('latin1'),
};
/** As they stand in an address. */
const HOSTILE_ADDRESS = [
  '%00',
  'a%00b',
  '%ED%A0%80',
  '%E2%80%AEabc',
  '%25_%5C%27',
  '..%2F..%2Fetc',
  'x'.repeat(5000),
];

/** Addresses about which nothing has to be asked of the network: the issuer is refused before any packet leaves. */
const SSO_ENDPOINTS = {
  issuer: 'https://10.0.0.1',
  authorizationUrl: 'https://1.1.1.1/authorize',
  tokenUrl: 'https://1.1.1.1/token',
  userInfoUrl: 'https://1.1.1.1/userinfo',
  jwksUrl: 'https://1.1.1.1/keys',
};

const refusedBefore = new Set([401, 403, 404, 409, 429]);

/**
 * One value after the other, and again from the first. One mechanism answers what a schema refuses, whatever the row and
 * the field: each field is asked once with such a value, and over all rows the mechanism is asked with every value.
 */
function inTurn<Value>(values: readonly Value[]): () => Value {
  let at = 0;
  return () => values[at++ % values.length]!;
}

describe('bad input', function () {
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
        raiseAlert(tx, { orgId: tenant.orgId, kind, severity: 'low', title: 'Title', message: 'Message' }),
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
      '/orgs/organizations/:id/alert-settings': tenant.orgId,
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
      '/roles/:id': await made('/roles', { name: 'Reader', scope: 'partner', permissions: ['devices:read'] }),
      '/api-keys/:id': await made('/api-keys', { name: 'Key', scopes: ['devices:read'] }),
      '/sso/providers/:id': provider.body.id as string,
      '/webhooks/:id': await made('/webhooks', {
        orgId: tenant.orgId,
        name: 'Hook',
        url: 'https://1.1.1.1/hook',
        eventTypes: ['alert.raised'],
      }),
    };
    for (const { path } of rows.filter(({ access }) => access === 'agent')) {
      const agent = await buildDevice(app, tenant.orgId);
      ids[path] = agent.deviceId;
      agentTokens.set(path, agent.token);
    }
  });
  after(async () => app.close());

  /** Somebody whom the row lets in, of their own, since some rows change who one is. */
  async function tokenFor(row: AnyRoute): Promise<string | undefined> {
    if (row.access === 'public') return undefined;
    if (row.access === 'agent') return agentTokens.get(row.path);
    const isSystem = typeof row.access === 'object' && !row.access.scopes.includes('partner');
    const person = isSystem
      ? await buildPerson(app, { scope: 'system' })
      : await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    return (await giveSecondFactor(app, person)).token;
  }

  const at = (row: AnyRoute) => row.path.replace(/:\w+/g, () => ids[row.path] ?? newId());

  /** A value that the schema takes, named by its field where its type does not say enough. */
  function sample(name: string, shape: Shape): unknown {
    const known: Body = {
      orgId: tenant.orgId,
      siteId: tenant.siteId,
      partnerId: tenant.partnerId,
      roleId: SYSTEM_ROLES.partnerViewer,
      organizationOrder: [tenant.orgId],
      email: `bad-input-${newId()}@example.com`,
      billingEmail: 'billing@example.com',
      password: PASSWORD,
      currentPassword: PASSWORD,
      newPassword: `${PASSWORD}-new`,
      code: '123456',
      slug: `slug-${newId()}`,
      timezone: 'UTC',
      status: 'active',
      expiresAt: '2100-01-01T00:00:00Z',
      permissions: ['devices:read'],
      scopes: ['devices:read'],
      orgAccess: 'all',
      orgIds: [],
      deviceIds: [ids['/devices/:id/commands']],
      targetDevices: [ids['/devices/:id/commands']],
      targetGroups: [],
      ipAddresses: ['203.0.113.7'],
      enrollmentKey: 'set below',
      conditions: { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNotNull' }] },
      key: `key_${newId().slice(-12)}`,
      until: new Date(Date.now() + 3_600_000).toISOString(),
      customFields: {},
      action: shape.enum?.[0] ?? { type: 'autoUpdate', enabled: true },
      payload: { language: 'bash', content: 'true', timeoutSeconds: 1 },
      preset: 'okta',
      ...SSO_ENDPOINTS,
      ssoUrl: 'https://id.example.com/sso',
      defaultRoleId: SYSTEM_ROLES.organizationViewer,
      allowedDomains: 'example.com',
      enforceSSO: false,
      breakGlassUserIds: [],
      certificate: signingKey('signing').certificate,
      attributeMapping: { email: 'email', name: 'name' },
      metadataUrl: 'https://10.0.0.1/metadata',
      metadataXml: null,
      domain: `domain-${newId()}.example`,
      version: '1.2.3',
      logoUrl: 'https://cdn.example.com/logo.png',
      url: 'https://1.1.1.1/hook',
      eventTypes: ['alert.raised'],
      statuses: ['failed'],
      accentColor: '#1a2b3c',
      encryptionKeyId,
      sources: { paths: { linux: ['/home'] } },
      schedule: { frequency: 'daily' },
      rehearsalSchedule: { frequency: 'daily' },
      dependsOnGroupId: null,
      devices: [{ deviceId: ids['/devices/:id/commands'], restore: { type: 'files' } }],
      machinesAreBack: undefined,
      saveMachines: undefined,
      retention: { keepDaily: 7 },
      targets: {},
      details: {},
      selectedPaths: ['/home'],
      network: { type: 'none' },
      restoreType: 'selective',
      disk: undefined,
      grow: undefined,
      volume: undefined,
      targetConfig: { disks: ['sda'] },
      result: {
        status: 'completed',
        bytesRestored: 1,
        validated: true,
        disks: [],
        warnings: [],
        error: null,
      },
      material: Buffer.alloc(32, 7).toString('base64'),
      instance: 'MSSQLSERVER',
      outputPath: String.raw`D:\Backups`,
      backupFile: String.raw`D:\Backups\a.bak`,
    };
    if (name === 'scopes' && shape.type === 'string') return 'openid email';
    if (Object.hasOwn(known, name)) return known[name];
    const { type, enum: values, anyOf, format, items, minimum, properties = {}, required = [] } = shape;
    // Of a group, which is a static one here.
    if (name === 'filterId' && anyOf !== undefined) return null;
    if (shape.const !== undefined) return shape.const;
    if (values !== undefined) return values[0];
    if (anyOf !== undefined) return sample(name, anyOf[0] ?? {});
    if (type === 'integer' || type === 'number') return Math.max(minimum ?? 1, 1);
    if (type === 'boolean') return true;
    if (type === 'array') return [sample('', items ?? {})];
    if (type === 'object') {
      return Object.fromEntries(required.map((key) => [key, sample(key, properties[key] ?? {})]));
    }
    if (format === 'email') return 'ada@example.com';
    if (format === 'uuid') return newId();
    return format === 'date-time' ? '2026-01-01T00:00:00Z' : 'Valid text';
  }

  async function goodBody(row: AnyRoute): Promise<{ body: Body; fields: [string, Shape][] }> {
    const whole = z.toJSONSchema(row.body as z.ZodType, { io: 'input', unrepresentable: 'any' }) as Shape;
    // Of a body with several forms the first one.
    const { properties = {} } = (whole.oneOf ?? whole.anyOf)?.[0] ?? whole;
    const body = Object.fromEntries(
      Object.entries(properties).map(([name, shape]) => [name, sample(name, shape)]),
    );
    if ('enrollmentKey' in body) body['enrollmentKey'] = await buildEnrollmentKey(app, tenant.orgId);
    // An organization's member has no choice of organizations, and the other way round.
    if ('orgAccess' in body) delete body['orgId'];
    // A machine is named by its name or its id, an export has no configuration, and a new checkpoint no id.
    if ('vmName' in body && 'vmId' in body) {
      for (const other of ['vmId', 'configId', 'checkpointId']) delete body[other];
    }
    // Either all users or those that are named, and retention of its own.
    if ('allUsers' in body) {
      delete body['allUsers'];
      body['retention'] = { keepDays: 7 };
    }
    // Of logs only.
    if (body['backupType'] === 'full') delete body['stopAt'];
    const parsed = row.body?.safeParse(body);
    expect(parsed?.error?.issues ?? [], `a good body for ${nameOf(row)}`).to.deep.equal([]);
    return { body, fields: Object.entries(properties) };
  }

  async function send(row: AnyRoute, token: string | undefined, body: Body): Promise<Answer> {
    return app.call(row.method.toUpperCase(), at(row), { token, body });
  }

  /** The schema refuses it, and names the field. */
  const isNamed = (row: AnyRoute, field: string, body: Body): boolean =>
    row.body?.safeParse(body).error?.issues.some(({ path }) => path[0] === field) === true;

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
    if (status === 400) {
      const paths = (answer.details as { path: string }[] | undefined)?.map(({ path }) => path) ?? [];
      expect(
        paths.some((path) => path.startsWith(`body.${field}`)),
        description,
      ).to.equal(true);
      return;
    }
    if (status === 413 || refusedBefore.has(status)) return;
    expect(status, description).to.be.within(200, 299);
    expect(row.body?.safeParse(body).success, description).to.equal(true);
    if (typeof answer === 'object' && answer !== null && field in answer) {
      expect(answer[field], description).to.deep.equal(body[field]);
    }
  }

  const textual = (shape: Shape): boolean => shape.type === 'string' || (shape.anyOf?.some(textual) ?? false);
  const nullable = (shape: Shape): boolean => shape.anyOf?.some(({ type }) => type === 'null') ?? false;
  const dated = (name: string, shape: Shape): boolean =>
    shape.format === 'date-time' || /^(expiresAt|until|contract(Start|End))$/.test(name);

  let turn = 0;
  const nextBody = inTurn(Object.entries(BODIES));
  const nextAddress = inTurn(HOSTILE_ADDRESS);
  const nextPath = inTurn([...HOSTILE_ADDRESS, '%', newId().slice(1)]);

  // The form of a web page has texts only, and its route answers with a redirect (test/server/features/sso/saml/acs.test.ts).
  for (const row of rows.filter(({ body, bodyType }) => body !== undefined && bodyType !== 'form')) {
    it(`in the body of ${nameOf(row)} is named, or stored as it is`, async () => {
      const token = await tokenFor(row);
      const { body, fields } = await goodBody(row);
      const first = fields[0]?.[0];
      let refused: [fresh: Body, what: string][] = [];
      const attempt = async (field: string, value: unknown, what: string) => {
        // What must be unique is new each time, so that no try is refused for the one before it.
        const fresh = { ...body, ...('slug' in body ? { slug: `slug-${newId()}` } : {}), [field]: value };
        if (isNamed(row, field, fresh)) refused.push([fresh, what]);
        else judge(row, field, fresh, await send(row, token, fresh), what);
      };
      for (const [field, shape] of fields) {
        refused = [];
        if (textual(shape)) {
          for (const [what, value] of Object.entries(HOSTILE_TEXT)) await attempt(field, value, what);
          for (const [what, value] of Object.entries(NO_TEXT)) {
            if (!(value === null && nullable(shape))) await attempt(field, value, what);
          }
        }
        if (dated(field, shape)) for (const value of NO_DATE) await attempt(field, value, `${value}`);
        if (shape.type === 'object') {
          await attempt(field, ['x'], 'an array');
          for (const text of ['a\0b', 'a\ud800b']) {
            await attempt(field, { note: { deep: [text] } }, 'such a text in it');
          }
        }
        if (shape.type === 'array') await attempt(field, { 0: 'x' }, 'an object');
        const [fresh, what] = refused[(turn += 1) % Math.max(refused.length, 1)] ?? [];
        if (fresh !== undefined) judge(row, field, fresh, await send(row, token, fresh), String(what));
      }
      if (first !== undefined) {
        const twice = JSON.stringify(body).replace(
          /^\{/,
          `{"${first}":${JSON.stringify(body[first] ?? null)},`,
        );
        const answer = await app.call(row.method.toUpperCase(), at(row), { token, rawBody: twice });
        if (!refusedBefore.has(answer.status) && first in body) {
          expect([answer.status, answer.body.details?.[0]?.path], 'a key twice').to.deep.equal([
            400,
            `body.${first}`,
          ]);
        }
      }
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

  for (const row of rows.filter(({ query }) => query !== undefined)) {
    it(`in the query of ${nameOf(row)} is named, or finds nothing`, async () => {
      const token = await tokenFor(row);
      const { properties = {}, required = [] } = z.toJSONSchema(row.query as z.ZodType, {
        io: 'input',
        unrepresentable: 'any',
      }) as Shape;
      for (const field of Object.keys(properties)) {
        const others = required
          .filter((name) => name !== field)
          .map((name) => `&${name}=${encodeURIComponent(String(sample(name, properties[name] ?? {})))}`);
        const isRefused = (value: string) =>
          row.query
            ?.safeParse({ [field]: decodeURIComponent(value) })
            .error?.issues.some(({ path }) => path[0] === field);
        const taken = HOSTILE_ADDRESS.filter((value) => value !== '%ED%A0%80' && isRefused(value) !== true);
        for (const value of new Set([...taken, nextAddress(), `a&${field}=b`])) {
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

  for (const row of rows.filter(({ params }) => params !== undefined)) {
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

  it('of a name that no field has is refused wherever leaving out a field has a meaning', () => {
    const lenient = rows
      .filter(({ body }) => body instanceof z.ZodObject)
      .filter(({ body }) => {
        const fields = Object.values((body as z.ZodObject).shape);
        const hasChoice = fields.some((field) => field.safeParse(undefined).success);
        return hasChoice && (body as z.ZodObject).def.catchall === undefined;
      });
    // Agents of a later release may report more than this one knows.
    expect(lenient.map(nameOf)).to.deep.equal([
      'POST /agents/enroll',
      'POST /agents/:id/heartbeat',
      'POST /agents/:id/watchdog-report',
      'POST /agents/:id/inventory',
    ]);
  });
});
