import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../src/features/users/index.ts';
import { parseBody } from '../../src/platform/http/parse-body.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { newId } from '../../src/platform/ids.ts';
import { PASSWORD } from '../support/factories.ts';
import { signingKey } from '../support/saml-certificates.ts';
import { bodyFields, type Field, nameOf, type Shape, shapeOf } from './row-kinds.ts';

/** What no client should send, and bodies and queries that are right in all but the field that is tried. */

export type Body = Record<string, unknown>;

export const HOSTILE_TEXT = {
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
export const BAD_BODIES = {
  'no JSON': '{"name": ',
  null: 'null',
  'an array': '[]',
  'a string': '"x"',
  nothing: '',
  'fifty thousand arrays': '['.repeat(45_000) + ']'.repeat(45_000),
  'half of a character': Buffer.from([0x22, 0xff, 0xfe, 0x22]).toString('latin1'),
};
/** A surrogate alone, which has no place in UTF-8. */
const NO_UTF8 = '%ED%A0%80';
/** As they stand in an address. */
export const HOSTILE_ADDRESS = [
  '%00',
  'a%00b',
  NO_UTF8,
  '%E2%80%AEabc',
  '%25_%5C%27',
  "'; drop table devices; --".replaceAll(' ', '%20'),
  '..%2F..%2Fetc',
  'x'.repeat(5000),
];

export const textual = (shape: Shape): boolean =>
  shape.type === 'string' || (shape.anyOf?.some(textual) ?? false);
const nullable = (shape: Shape): boolean => shape.anyOf?.some(({ type }) => type === 'null') ?? false;
const dated = (name: string, shape: Shape): boolean =>
  shape.format === 'date-time' || /^(expiresAt|until|contract(Start|End))$/.test(name);

/** What is tried in a field: a value, and what it is. */
export function badValues(name: string, shape: Shape): [what: string, value: unknown][] {
  const values: [string, unknown][] = [];
  if (textual(shape)) {
    values.push(...Object.entries(HOSTILE_TEXT));
    values.push(...Object.entries(NO_TEXT).filter(([, value]) => !(value === null && nullable(shape))));
  }
  if (dated(name, shape)) values.push(...NO_DATE.map((value): [string, unknown] => [`${value}`, value]));
  if (shape.type === 'object') {
    values.push(['an array', ['x']]);
    for (const text of ['a\0b', 'a\ud800b']) {
      values.push([`${JSON.stringify(text)} in it`, { note: { deep: [text] } }]);
    }
  }
  if (shape.type === 'array') values.push(['an object', { 0: 'x' }]);
  return values;
}

/** Addresses about which nothing has to be asked of the network: the issuer is refused before any packet leaves. */
export const SSO_ENDPOINTS = {
  issuer: 'https://10.0.0.1',
  authorizationUrl: 'https://1.1.1.1/authorize',
  tokenUrl: 'https://1.1.1.1/token',
  userInfoUrl: 'https://1.1.1.1/userinfo',
  jwksUrl: 'https://1.1.1.1/keys',
};

/** What a right body names. */
export interface Ids {
  orgId: string;
  siteId: string;
  partnerId: string;
  deviceId: string | undefined;
  encryptionKeyId: string;
  enrollmentKey: string;
  personId: string;
}
/** Of things that do not exist: for what only a schema looks at. */
export const NO_IDS: Ids = {
  orgId: newId(),
  siteId: newId(),
  partnerId: newId(),
  deviceId: newId(),
  encryptionKeyId: newId(),
  enrollmentKey: 'none',
  personId: newId(),
};

/** A value that the schema takes, named by its field where its type does not say enough. */
export function sample(name: string, shape: Shape, given: Ids): unknown {
  const known: Body = {
    orgId: given.orgId,
    siteId: given.siteId,
    partnerId: given.partnerId,
    roleId: SYSTEM_ROLES.partnerViewer,
    organizationOrder: [given.orgId],
    email: `bad-input-${newId()}@example.com`,
    billingEmail: 'billing@example.com',
    password: PASSWORD,
    currentPassword: PASSWORD,
    newPassword: `${PASSWORD}-new`,
    code: '123456',
    slug: `slug-${newId()}`,
    timezone: 'UTC',
    cron: '30 2 * * *',
    list: 'devices',
    status: 'active',
    expiresAt: '2100-01-01T00:00:00Z',
    permissions: ['devices:read'],
    scopes: ['devices:read'],
    orgAccess: 'all',
    orgIds: [],
    deviceIds: [given.deviceId],
    targetDevices: [given.deviceId],
    targetGroups: [],
    ipAddresses: ['203.0.113.7'],
    enrollmentKey: given.enrollmentKey,
    conditions: { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNotNull' }] },
    key: `key_${newId().slice(-12)}`,
    until: new Date(Date.now() + 3_600_000).toISOString(),
    customFields: {},
    action: shape.enum?.[0] ?? { type: 'autoUpdate', enabled: true },
    payload: { language: 'bash', content: 'true', timeoutSeconds: 1 },
    credential: {
      id: 'AAAA',
      rawId: 'AAAA',
      type: 'public-key',
      response: {
        clientDataJSON: 'AAAA',
        attestationObject: 'AAAA',
        authenticatorData: 'AAAA',
        signature: 'AAAA',
      },
    },
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
    target: { all: true },
    start: shape.type === 'boolean' ? true : '2100-01-01T22:00',
    durationMinutes: 60,
    repeat: { frequency: 'daily' },
    suppress: { alerts: true, upgrades: true },
    accentColor: '#1a2b3c',
    encryptionKeyId: given.encryptionKeyId,
    sources: { paths: { linux: ['/home'] } },
    schedule: { frequency: 'daily' },
    rehearsalSchedule: { frequency: 'daily' },
    dependsOnGroupId: null,
    devices: [{ deviceId: given.deviceId, restore: { type: 'files' } }],
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
    scriptFingerprint: 'a'.repeat(64),
    backupFile: String.raw`D:\Backups\a.bak`,
  };
  if (name === 'scopes' && shape.type === 'string') return 'openid email';
  if (Object.hasOwn(known, name)) return known[name];
  const { type, enum: values, anyOf, format, items, minimum, properties = {}, required = [] } = shape;
  // Of a group, which is a static one here.
  if (name === 'filterId' && anyOf !== undefined) return null;
  if (shape.const !== undefined) return shape.const;
  if (values !== undefined) return values[0];
  if (anyOf !== undefined) return sample(name, anyOf[0] ?? {}, given);
  if (type === 'integer' || type === 'number') return Math.max(minimum ?? 1, 1);
  if (type === 'boolean') return true;
  if (type === 'array') return [sample('', items ?? {}, given)];
  if (type === 'object') {
    return Object.fromEntries(required.map((key) => [key, sample(key, properties[key] ?? {}, given)]));
  }
  if (format === 'email') return 'ada@example.com';
  if (format === 'uuid') return newId();
  return format === 'date-time' ? '2026-01-01T00:00:00Z' : 'Valid text';
}

/** A body that the schema of the row takes, with every field that it has. */
export function goodBody(row: AnyRoute, given: Ids): Body {
  const fields = bodyFields(row);
  const body: Body = Object.fromEntries(fields.map(([name, shape]) => [name, sample(name, shape, given)]));
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
  Object.assign(body, ofAlerts(row, given));
  // Mail has no secret.
  if (row.path.startsWith('/notification-channels')) delete body['secret'];
  // Required, so without a default value.
  if (/^\/scripts(\/:id)?$/.test(row.path)) body['parameters'] = [{ name: 'FOLDER', required: true }];
  // Of logs only.
  if (body['backupType'] === 'full') delete body['stopAt'];
  const parsed = parsedBody(row, body);
  expect(parsed?.error?.issues ?? [], `a good body for ${nameOf(row)}`).to.deep.equal([]);
  return body;
}

/** What these fields mean elsewhere is something else. */
function ofAlerts({ path }: AnyRoute, { personId }: Ids): Body {
  const quietHours = { from: '22:00', to: '06:00', timezone: 'UTC' };
  if (path === '/users/me/notification-settings') {
    return { address: 'ada@example.com', phone: '+44 20 7946 0000', quietHours };
  }
  if (path === '/users/me/notification-settings/verify-address') return { code: '1234 5678' };
  if (path.startsWith('/notification-channels')) return { details: { address: 'ada@example.com' } };
  if (path.startsWith('/reports/schedules')) {
    return { time: '08:30', userIds: [personId], addresses: ['ada@example.com'] };
  }
  if (path === '/notification-policies/simulate') return { kind: 'device_offline' };
  if (path === '/notification-policies/order') return { policyIds: [] };
  if (path.startsWith('/alert-rules')) return { condition: { kind: 'offline', forMinutes: 5 } };
  if (path.startsWith('/notification-policies')) {
    const steps = [{ afterMinutes: 0, userIds: [personId] }];
    return { steps, match: { severities: ['critical'] }, until: 'acknowledged' };
  }
  return {};
}

/** As the pipeline parses it. */
export const parsedBody = ({ method, body: schema }: AnyRoute, body: Body) =>
  schema === undefined ? undefined : parseBody({ method, body: schema }, body);

/** The schema refuses it, and names the field. */
export const isNamed = (row: AnyRoute, field: string, body: Body): boolean =>
  parsedBody(row, body)?.error?.issues.some(({ path }) => path[0] === field) === true;

/** The fields of JSON bodies, each with the bad values that its schema takes. */
export function fieldsOfBodies(rows: readonly AnyRoute[]): Field[] {
  return rows.flatMap((row) => {
    const { method, path } = row;
    const body = goodBody(row, NO_IDS);
    return bodyFields(row).map(([field, shape]) => {
      const taken = badValues(field, shape).filter(
        ([, value]) => !isNamed(row, field, { ...body, [field]: value }),
      );
      return { method, path, field, shape, takes: taken.map(([what]) => what) };
    });
  });
}

/** The same for queries, with values as they stand in an address. */
export function fieldsOfQueries(rows: readonly AnyRoute[]): Field[] {
  return rows.flatMap((row) => {
    const { method, path, query } = row;
    if (query === undefined) return [];
    return Object.entries(shapeOf(query).properties ?? {}).map(([field, shape]) => {
      const isRefused = (value: string) =>
        query
          .safeParse({ [field]: decodeURIComponent(value) })
          .error?.issues.some((issue) => issue.path[0] === field) === true;
      const takes = HOSTILE_ADDRESS.filter((value) => value !== NO_UTF8 && !isRefused(value));
      return { method, path, field, shape, takes };
    });
  });
}
