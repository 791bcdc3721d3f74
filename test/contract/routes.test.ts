import { expect } from 'chai';
import { PERMISSIONS } from '../../src/features/roles/role.schema.ts';
import { SCOPES } from '../../src/platform/db/tenant-scope.ts';
import { refusesKeys } from '../../src/platform/http/authentication.ts';
import { newId } from '../../src/platform/ids.ts';
import { describeAskedRoutes } from './asked-routes.ts';
import { allRows as rows, bodyFields, hasId, nameOf, oneOfEach, shapeOf } from './row-kinds.ts';

/** What every row of the route table owes: all rows by what they declare, and one row of each kind over HTTP. */

const parametersOf = (pattern: string) => [...pattern.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
const isId = (name: string) => /^(id|\w+Id)$/.test(name) && name !== 'recordId';

/** They change a device and nothing in the database: the entry has what the device answers, whatever that is. */
const CHANGE_A_DEVICE = [
  'POST /system-tools/devices/:deviceId/processes/:pid/end',
  'POST /system-tools/devices/:deviceId/services/:name/start',
  'POST /system-tools/devices/:deviceId/services/:name/stop',
  'POST /system-tools/devices/:deviceId/services/:name/restart',
];

describe('the route table', () => {
  it('writes the entry of a change in the transaction of the change; only reads have one of their own for it', () => {
    const lost = rows.filter((row) => row.audit !== undefined && !row.transaction && row.method !== 'get');
    expect(lost.map(nameOf)).to.deep.equal(CHANGE_A_DEVICE);
  });

  it('takes the ids of a path in capital letters too, and hands them on as the database answers them', () => {
    const id = newId();
    for (const row of rows.filter(hasId)) {
      const names = parametersOf(row.path);
      const given = Object.fromEntries(
        names.map((name) => [
          name,
          isId(name) ? id.toUpperCase() : name === 'outputHash' ? 'A'.repeat(64) : '1',
        ]),
      );
      const parsed = row.params?.safeParse(given);
      expect(parsed?.success, row.path).to.equal(true);
      for (const name of names.filter(isId)) expect(parsed?.data, row.path).to.have.property(name, id);
    }
  });

  it('has an entry for each row that may change something, or says in the row why not', () => {
    const changing = rows.filter(({ method }) => method !== 'get');
    const silent = changing.filter((row) => (row.audit === undefined) === (row.unaudited === undefined));
    expect(silent.map(nameOf)).to.deep.equal([]);
    for (const { path, unaudited } of changing) {
      if (unaudited !== undefined) expect(unaudited.length, path).to.be.greaterThan(20);
    }
  });

  it('has each method and path once', () => {
    const names = rows.map((row) => nameOf(row).replaceAll(/:\w+/g, ':'));
    expect(names).to.have.members([...new Set(names)]);
  });

  it('lets in only scopes that there are, with permissions that a role can hold', () => {
    for (const row of rows) {
      if (typeof row.access === 'string') {
        expect(row.access, nameOf(row)).to.be.oneOf(['public', 'signed-in', 'person', 'agent']);
        continue;
      }
      expect(row.access.scopes, nameOf(row)).not.to.be.empty;
      expect(SCOPES, nameOf(row)).to.include.members([...row.access.scopes]);
      if (row.access.permission === undefined) continue;
      expect(PERMISSIONS, nameOf(row)).to.include(row.access.permission);
    }
  });

  it('refuses API keys wherever it asks for a second factor, which a key cannot have', () => {
    const open = rows.filter(
      ({ access }) => typeof access === 'object' && access.mfa === true && !refusesKeys(access),
    );
    expect(open.map(nameOf)).to.deep.equal([]);
  });

  it('leads an agent only below the device that it is', () => {
    const elsewhere = rows.filter(
      ({ access, path: at }) => access === 'agent' && !at.startsWith('/agents/:id/'),
    );
    expect(elsewhere.map(nameOf)).to.deep.equal([]);
  });

  it('has a schema for just the parameters of each path, and takes for an id only what can be one', () => {
    for (const row of rows) {
      const names = parametersOf(row.path);
      const shape = row.params === undefined ? {} : (shapeOf(row.params).properties ?? {});
      expect(Object.keys(shape), nameOf(row)).to.have.members(names);
      for (const name of names.filter(isId)) {
        for (const bad of ['not-a-uuid', "1' or '1'='1", '\0', `${newId()}\0`, '../..', '']) {
          const given = { ...Object.fromEntries(names.map((each) => [each, newId()])), [name]: bad };
          const faults = row.params?.safeParse(given).error?.issues.map((issue) => issue.path[0]);
          expect(faults, `${nameOf(row)}: ${bad} as ${name}`).to.include(name);
        }
      }
    }
  });

  it('takes a body only by methods that send one, each with a schema or as bytes, up to a limit', () => {
    for (const row of rows) {
      const takesBody = row.body !== undefined || row.bodyType === 'bytes';
      if (/^(get|delete)$/.test(row.method)) expect(takesBody, nameOf(row)).to.equal(false);
      if (row.bodyType === 'form') expect(row.body, nameOf(row)).not.to.equal(undefined);
      if (row.bodyType === 'bytes') expect(row.bodyLimit, nameOf(row)).to.be.a('number');
      if (row.bodyLimit === undefined) continue;
      expect(takesBody, `${nameOf(row)} has a limit for a body`).to.equal(true);
      // What is parsed as a whole is held in memory; bytes are streamed.
      const most = row.bodyType === 'bytes' ? 512 * 1024 * 1024 : 2_000_000;
      expect(row.bodyLimit, nameOf(row)).to.be.within(1000, most);
    }
  });

  it('names each field that is missing from an empty body', () => {
    for (const row of rows.filter(({ body }) => body !== undefined)) {
      const known = bodyFields(row).map(([name]) => name);
      for (const {
        path: [field],
      } of row.body?.safeParse({}).error?.issues ?? []) {
        expect(known, nameOf(row)).to.include(field);
      }
    }
  });

  it('takes an empty body if nothing has to be said, and else only in patches, which refuse it as one', () => {
    const lenient = rows.filter(
      ({ method, body }) => method !== 'patch' && body?.safeParse({}).success === true,
    );
    expect(lenient.map(nameOf)).to.have.members([
      // Everything has a default, or is optional.
      'POST /alerts/:id/acknowledge',
      'POST /alerts/:id/resolve',
      'POST /audit-logs/export',
      'POST /backup/configs/:id/test',
      'POST /backup/jobs/run/:deviceId',
      'POST /backup/vault/:id/sync',
      'POST /devices/:id/approve',
      'POST /devices/:id/upgrades',
      'POST /scripts/:id/execute',
      'POST /sso/providers/:id/test',
      'POST /webhooks/:id/rotate-secret',
      // What is left out is cleared.
      'PUT /partners/me/login-branding',
      // The token may be in a cookie, password and code are asked for only where there are any, and a form is judged as a whole.
      'POST /auth/refresh',
      'POST /auth/mfa/setup',
      'POST /auth/mfa/disable',
      'POST /auth/mfa/recovery-codes',
      'POST /auth/passkeys/options',
      'POST /sso/saml/acs',
    ]);
  });

  it('takes each parameter of a query once', () => {
    for (const row of rows.filter(({ query }) => query !== undefined)) {
      for (const field of Object.keys(shapeOf(row.query!).properties ?? {})) {
        for (const bad of [['a', 'b'], { a: 'b' }]) {
          const parsed = row.query?.safeParse({ [field]: bad });
          const faults = parsed?.error?.issues.map((issue) => issue.path[0]) ?? [];
          // A page that cannot be one is the first.
          if (/^(page|limit)$/.test(field) && !faults.includes(field)) continue;
          expect(faults, `${nameOf(row)}: ${field}`).to.include(field);
        }
      }
    }
  });

  it('is idempotent only if work is made, whose first answer can be stored', () => {
    for (const row of rows.filter(({ idempotent }) => idempotent === true)) {
      expect(row, nameOf(row)).to.include({ method: 'post', transaction: true });
      expect(row.media, nameOf(row)).to.equal(undefined);
      expect(row.access, nameOf(row)).not.to.be.oneOf(['public', 'agent']);
    }
  });
});

describeAskedRoutes('a route of each kind', oneOfEach);
