import { expect } from 'chai';
import { raisedAlert } from '../support/raised-alert.ts';
import { SYSTEM_ROLES } from '../../src/features/users/index.ts';
import { withSystem } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import {
  buildDevice,
  buildSite,
  buildPerson,
  buildTenant,
  giveSecondFactor,
  PASSWORD,
  type Person,
} from '../support/factories.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { passkeysOf } from '../support/auth/passkey-support.ts';
import { codeOf, enableSecondFactor } from '../support/auth/second-factor-support.ts';
import { asOwner } from '../support/test-postgres.ts';
import { allRows, nameOf } from './row-kinds.ts';
import { S3_DETAILS, type Update, workUpdates } from './work-updates.ts';

/**
 * Every update that is in the audit trail shows what it has changed, from what to what, and no secret, whatever its
 * method (SHAPES 19). What answers 201 only creates, what is idempotent or answers 202 makes work, and what is deleted is
 * named by its entry.
 */

const updates = allRows
  .filter(
    ({ method, audit, access, status, idempotent }) =>
      /^(put|patch|post)$/.test(method) &&
      audit !== undefined &&
      access !== 'agent' &&
      status !== 201 &&
      status !== 202 &&
      idempotent !== true,
  )
  .map(nameOf);

/** Audited requests by POST that change nothing which a reader could compare. */
const NO_CHANGE: Record<string, string> = {
  'POST /auth/mfa/step-up': 'it proves a second factor once more',
  'POST /auth/mfa/step-up-passkey': 'it proves a second factor once more',
  'POST /users/resend-invite': 'it sends a mail again',
  'POST /sso/providers/:id/test': 'it tests the provider; what it fills in is an update below',
  'POST /filters/preview': 'it reads',
  'POST /filters/:id/preview': 'it reads',
  'POST /backup/configs/:id/test': 'it tests the destination',
  'POST /c2c/connections/:id/test': 'it tests the connection',
  'POST /c2c/items/export': 'it reads',
  'POST /webhooks/:id/test': 'it sends an event',
  'POST /notification-channels/:id/test': 'it sends a message',
  'POST /users/me/notification-settings/address-code': 'it sends a mail',
  'POST /audit-logs/export': 'it reads',
  'POST /audit-logs/verify': 'it reads',
};

const LIVE_CHANGE =
  'it is made by a device that answers: test/server/features/system-tools/live-tools.test.ts asks it';

/** Of these no request is made here: it would need a device, a release, or a domain with records. */
const NOT_ASKED: Record<string, string> = {
  'POST /sso/domains/:id/verify': 'test/server/features/sso/domains/domains.test.ts asks it',
  'POST /users/me/notification-settings/verify-address':
    'its code is in a mail: test/server/features/notifications/own-address.test.ts asks it',
  'POST /system-tools/devices/:deviceId/processes/:pid/end': LIVE_CHANGE,
  'POST /system-tools/devices/:deviceId/services/:name/start': LIVE_CHANGE,
  'POST /system-tools/devices/:deviceId/services/:name/stop': LIVE_CHANGE,
  'POST /system-tools/devices/:deviceId/services/:name/restart': LIVE_CHANGE,
  'POST /agent-versions/promote': 'its note has the releases before and after',
  'POST /agent-versions/sync-github': 'its note has the releases before and after',
};

describe('changes in the audit trail', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    await giveSecondFactor(app, tenant.admin);
    system = await giveSecondFactor(app, await buildPerson(app, { scope: 'system' }));
  });
  after(() => app.close());

  const make = async (path: string, body: object): Promise<string> => {
    const made = await app.call('POST', path, { token: tenant.admin.token, body });
    expect(made.status, JSON.stringify(made.body)).to.be.oneOf([201, 202]);
    return (made.body.id ?? made.body.data?.id) as string;
  };
  const renaming = async (path: string, body: object): Promise<Update> => ({
    path: `${path}/${await make(path, { name: 'Old', ...body })}`,
    body: { name: 'New' },
    before: { name: 'Old' },
    after: { name: 'New' },
  });
  const conditions = (value: string) => ({
    operator: 'AND',
    conditions: [{ field: 'hostname', operator: 'equals', value }],
  });

  const windowAt = (start: string) => ({
    orgId: tenant.orgId,
    target: { all: true },
    timezone: 'UTC',
    start,
    durationMinutes: 60,
  });

  const connect = (displayName: string) =>
    make('/c2c/connections', {
      orgId: tenant.orgId,
      provider: 'microsoft_365',
      displayName,
      tenantId: tenant.siteId,
      clientId: tenant.siteId,
      clientSecret: 'hunter1',
    });

  /** For each of these routes one request that changes something. */
  const UPDATES: Record<string, () => Promise<Update>> = {
    'PATCH /users/me': async () => {
      const by = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const { name } = (await app.call('GET', '/users/me', { token: by.token })).body;
      return {
        path: '/users/me',
        body: { name: 'Renamed' },
        by,
        before: { name },
        after: { name: 'Renamed' },
      };
    },
    'PATCH /users/:id': async () => {
      const { id } = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const path = `/users/${id}`;
      return {
        path,
        body: { status: 'disabled' },
        before: { status: 'active' },
        after: { status: 'disabled' },
      };
    },
    'PATCH /api-keys/:id': () => renaming('/api-keys', { scopes: ['devices:read'] }),
    'PATCH /roles/:id': () => renaming('/roles', { permissions: ['devices:read'] }),
    'PATCH /orgs/partners/me': async () => ({
      path: '/orgs/partners/me',
      body: { settings: { language: 'en', contact: { name: 'A' } } },
      before: {},
      after: { settings: { language: 'en', contact: { name: 'A' } } },
    }),
    'PATCH /orgs/partners/:id': async () => ({
      path: `/orgs/partners/${tenant.partnerId}`,
      body: { maxDevices: 77 },
      by: system,
      before: { maxDevices: null },
      after: { maxDevices: 77 },
    }),
    'PATCH /orgs/organizations/order': async () => ({
      path: '/orgs/organizations/order',
      body: { organizationOrder: [tenant.orgId] },
      before: { organizationOrder: null },
      after: { organizationOrder: [tenant.orgId] },
    }),
    'PATCH /orgs/organizations/:id': async () => ({
      path: `/orgs/organizations/${tenant.orgId}`,
      body: { name: 'Renamed', ssoConfig: { issuer: 'https://id.example.com', clientSecret: 'hunter2' } },
      before: {},
      after: { name: 'Renamed', ssoConfig: { issuer: 'https://id.example.com', clientSecret: '(secret)' } },
    }),
    'PUT /orgs/organizations/:id/audit-retention': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/audit-retention`,
      body: { retentionDays: 99, archiveToS3: false },
      before: { retentionDays: 365 },
      after: { retentionDays: 99 },
    }),
    'PUT /orgs/organizations/:id/terminals': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/terminals`,
      body: { enabled: true },
      before: { enabled: false },
      after: { enabled: true },
    }),
    'PUT /orgs/organizations/:id/log-retention': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/log-retention`,
      body: { diagnosticDays: 5, eventDays: 90, whenFull: 'remove_oldest' },
      before: { diagnosticDays: 30, whenFull: 'refuse' },
      after: { diagnosticDays: 5, whenFull: 'remove_oldest' },
    }),
    'PUT /orgs/organizations/:id/metric-retention': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/metric-retention`,
      body: { minuteDays: 7, quarterDays: 90, hourDays: 365 },
      before: { minuteDays: 14, hourDays: 730 },
      after: { minuteDays: 7, hourDays: 365 },
    }),
    'PATCH /alert-rules/:id': async () => ({
      path: `/alert-rules/${await alertRule()}`,
      body: { severity: 'critical', cooldownMinutes: 5 },
      before: { severity: 'high', cooldownMinutes: 0 },
      after: { severity: 'critical', cooldownMinutes: 5 },
    }),
    'PATCH /script-schedules/:id': async () => ({
      path: `/script-schedules/${await scriptSchedule()}`,
      body: { cron: '0 3 * * *', enabled: false },
      before: { cron: '30 2 * * *', enabled: true },
      after: { cron: '0 3 * * *', enabled: false },
    }),
    'PUT /partners/me/login-branding': async () => ({
      path: '/partners/me/login-branding',
      body: { headline: 'Welcome', accentColor: '#1A2B3C' },
      before: { headline: null, accentColor: null },
      after: { headline: 'Welcome', accentColor: '#1a2b3c' },
    }),
    'PATCH /orgs/sites/:id': () => renaming('/orgs/sites', { orgId: tenant.orgId }),
    'PATCH /scripts/:id': () =>
      renaming('/scripts', { orgId: tenant.orgId, language: 'bash', content: 'true' }),
    'PATCH /filters/:id': () => renaming('/filters', { orgId: tenant.orgId, conditions: conditions('a') }),
    'PATCH /groups/:id': () => renaming('/groups', { orgId: tenant.orgId, type: 'static' }),
    'PATCH /webhooks/:id': () =>
      renaming('/webhooks', {
        orgId: tenant.orgId,
        url: 'https://1.1.1.1/hook',
        eventTypes: ['alert.raised'],
      }),
    'PATCH /maintenance-windows/:id': () => renaming('/maintenance-windows', windowAt('2100-01-01T00:00')),
    'PATCH /reports/schedules/:id': () =>
      renaming('/reports/schedules', {
        orgId: tenant.orgId,
        dayOfMonth: 1,
        time: '08:30',
        timezone: 'UTC',
        userIds: [],
        addresses: ['ada@example.com'],
      }),
    'PATCH /notification-channels/:id': () =>
      renaming('/notification-channels', {
        orgId: tenant.orgId,
        type: 'email',
        details: { address: 'ada@example.com' },
      }),
    'PATCH /notification-policies/:id': () =>
      renaming('/notification-policies', { orgId: tenant.orgId, steps: tellingAdmin() }),
    'PUT /notification-policies/order': async () => {
      const orgId = await make('/orgs/organizations', { name: 'Ordered', slug: `ordered-${newId()}` });
      const policy = (name: string) => make('/notification-policies', { orgId, name, steps: tellingAdmin() });
      const [first, second] = [await policy('First'), await policy('Second')];
      return {
        path: '/notification-policies/order',
        body: { orgId, policyIds: [second, first] },
        before: { policyIds: [first, second] },
        after: { policyIds: [second, first] },
      };
    },
    'PATCH /users/me/notification-settings': async () => ({
      path: '/users/me/notification-settings',
      body: { severities: ['critical'] },
      before: { severities: null },
      after: { severities: ['critical'] },
    }),
    'PATCH /saved-views/:id': () => renaming('/saved-views', { list: 'devices', search: {} }),
    'PATCH /custom-fields/:id': () =>
      renaming('/custom-fields', { orgId: tenant.orgId, key: 'asset_tag', type: 'string' }),
    'PATCH /sso/providers/:id': async () => {
      const { path } = await renaming('/sso/providers', { orgId: tenant.orgId, type: 'oidc' });
      return {
        path,
        body: { name: 'New', clientSecret: 'hunter2' },
        before: { name: 'Old', clientSecret: null, configVersion: 1 },
        after: { name: 'New', clientSecret: '(secret)', configVersion: 2 },
      };
    },
    'PATCH /backup/vault/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', {
        orgId: tenant.orgId,
        name: 'Key of vaults',
      });
      const configId = await make('/backup/configs', {
        orgId: tenant.orgId,
        name: 'Of a vault',
        provider: 'server',
        encryptionKeyId,
        sources: { paths: { linux: ['/home'] } },
      });
      const { deviceId } = await buildDevice(app, tenant.orgId);
      return renaming('/backup/vault', { deviceId, configId, provider: 's3', details: S3_DETAILS });
    },
    'PATCH /c2c/connections/:id': async () => ({
      path: `/c2c/connections/${await connect('Old')}`,
      body: { displayName: 'New' },
      before: { displayName: 'Old' },
      after: { displayName: 'New' },
    }),
    'PATCH /c2c/configs/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', {
        orgId: tenant.orgId,
        name: 'Cloud key',
      });
      const connectionId = await connect('Directory');
      const kinds = { backupScope: ['mail'], allUsers: true };
      return renaming('/c2c/configs', { connectionId, encryptionKeyId, ...kinds });
    },
    'PATCH /dr/plans/:id': () => renaming('/dr/plans', { orgId: tenant.orgId }),
    'PATCH /dr/plans/:id/groups/:groupId': async () => {
      const planId = await make('/dr/plans', { orgId: tenant.orgId, name: 'With a group' });
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const devices = [{ deviceId, restore: { type: 'files' } }];
      return renaming(`/dr/plans/${planId}/groups`, { sequence: 0, devices });
    },
    'PATCH /backup/configs/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', { orgId: tenant.orgId, name: 'Key' });
      const sources = { paths: { linux: ['/home'] } };
      const { path } = await renaming('/backup/configs', {
        orgId: tenant.orgId,
        provider: 's3',
        details: S3_DETAILS,
        encryptionKeyId,
        sources,
      });
      return {
        path,
        body: { name: 'New', details: { ...S3_DETAILS, secretKey: 'hunter2' } },
        before: { name: 'Old', sealedSecret: '(secret)' },
        after: { name: 'New', sealedSecret: '(secret)' },
      };
    },
    'PATCH /backup/sla/configs/:id': () =>
      renaming('/backup/sla/configs', {
        orgId: tenant.orgId,
        rpoTargetMinutes: 1440,
        rtoTargetMinutes: 240,
      }),
    'PATCH /devices/:id': async () => {
      const { deviceId } = await buildDevice(app, tenant.orgId);
      return {
        path: `/devices/${deviceId}`,
        body: { displayName: 'Front desk', tags: ['a'] },
        before: { displayName: null, tags: [] },
        after: { displayName: 'Front desk', tags: ['a'] },
      };
    },
    'PATCH /devices/:id/notes/:noteId': async () => {
      const path = `/devices/${(await buildDevice(app, tenant.orgId)).deviceId}/notes`;
      return {
        path: `${path}/${await make(path, { text: 'Old' })}`,
        body: { isPinned: true },
        before: { isPinned: false },
        after: { isPinned: true },
      };
    },
  };

  const device = async () => (await buildDevice(app, tenant.orgId)).deviceId;
  const alert = () =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      raisedAlert(tx, {
        orgId: tenant.orgId,
        kind: `kind_${newId().slice(-12)}`,
        severity: 'low',
        title: 'Title',
        message: 'Message',
      }),
    );
  const scriptSchedule = async () => {
    const send = async (path: string, body: object) =>
      (await app.call('POST', path, { token: tenant.admin.token, body })).body.id as string;
    const { orgId } = tenant;
    return send('/script-schedules', {
      orgId,
      name: `Schedule ${newId()}`,
      scriptId: await send('/scripts', { orgId, name: 'Clean', language: 'bash', content: 'true' }),
      cron: '30 2 * * *',
      timezone: 'UTC',
      target: { all: true },
    });
  };
  const alertRule = async () =>
    (
      await app.call('POST', '/alert-rules', {
        token: tenant.admin.token,
        body: {
          orgId: tenant.orgId,
          name: `Rule ${newId()}`,
          severity: 'high',
          target: { all: true },
          condition: { kind: 'offline', forMinutes: 60 },
        },
      })
    ).body.id as string;
  const snapshot = async () => {
    const id = newId();
    await asOwner(
      app.database.ownerUrl,
      `with repository as (
         insert into backup_repositories (id, org_id, device_id) values ($1, $2, $3) returning id)
       insert into backup_snapshots (id, org_id, device_id, repository_id, engine_id, received_at)
       select $1, $2, $3, id, repeat('a', 64), now() from repository`,
      [id, tenant.orgId, await device()],
    );
    return id;
  };

  const nextMonth = new Date(Date.now() + 30 * 86_400_000).toISOString();

  /** The same by POST. */
  const BY_POST: Record<string, () => Promise<Update>> = {
    'POST /users/:id/role': async () => {
      const { id } = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      return {
        path: `/users/${id}/role`,
        body: { roleId: SYSTEM_ROLES.organizationViewer },
        before: { roleId: SYSTEM_ROLES.organizationAdmin },
        after: { roleId: SYSTEM_ROLES.organizationViewer },
        hasMore: true,
      };
    },
    'POST /users/:id/mfa/reset': async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      await giveSecondFactor(app, person);
      return {
        path: `/users/${person.id}/mfa/reset`,
        body: {},
        before: { mfaEnabled: true },
        after: { mfaEnabled: false },
      };
    },
    'POST /sso/providers/:id/status': async () => ({
      path: `/sso/providers/${await make('/sso/providers', { orgId: tenant.orgId, name: 'Old', type: 'oidc' })}/status`,
      body: { status: 'testing' },
      before: { status: 'inactive' },
      after: { status: 'testing' },
      hasMore: true,
    }),
    'POST /devices/:id/auto-update': async () => ({
      path: `/devices/${await device()}/auto-update`,
      body: { enabled: false },
      before: { autoUpdate: true },
      after: { autoUpdate: false },
    }),
    'POST /devices/:id/maintenance': async () => ({
      path: `/devices/${await device()}/maintenance`,
      body: { enabled: true },
      before: { condition: 'normal' },
      after: { condition: 'maintenance' },
    }),
    'POST /devices/:id/move': async () => {
      const siteId = await buildSite(app, tenant.orgId);
      const { deviceId, siteId: old } = await buildDevice(app, tenant.orgId);
      return {
        path: `/devices/${deviceId}/move`,
        body: { siteId },
        before: { siteId: old },
        after: { siteId },
      };
    },
    'POST /devices/:id/approve': async () => {
      const waiting = await device();
      await withSystem(app.server.database.pool, 'test', (tx) =>
        tx('devices').where({ id: waiting }).update({ condition: 'pending' }),
      );
      return {
        path: `/devices/${waiting}/approve`,
        body: {},
        before: { condition: 'pending' },
        after: { condition: 'normal' },
      };
    },
    'POST /devices/:id/restore': async () => {
      const path = `/devices/${await device()}`;
      await app.call('DELETE', path, { token: tenant.admin.token });
      return {
        path: `${path}/restore`,
        before: { condition: 'decommissioned' },
        after: { condition: 'normal' },
      };
    },
    'POST /alerts/:id/acknowledge': async () => ({
      path: `/alerts/${await alert()}/acknowledge`,
      body: { note: 'Seen' },
      before: { status: 'active', note: null },
      after: { status: 'acknowledged', note: 'Seen' },
    }),
    'POST /alerts/:id/resolve': async () => ({
      path: `/alerts/${await alert()}/resolve`,
      body: {},
      before: { status: 'active' },
      after: { status: 'resolved' },
    }),
    'POST /backup/snapshots/:id/legal-hold': async () => ({
      path: `/backup/snapshots/${await snapshot()}/legal-hold`,
      body: { enabled: true, reason: 'Court' },
      before: { legalHold: false, legalHoldReason: null },
      after: { legalHold: true, legalHoldReason: 'Court' },
    }),
    'POST /backup/snapshots/:id/immutability': async () => ({
      path: `/backup/snapshots/${await snapshot()}/immutability`,
      body: { extendUntil: nextMonth },
      before: { immutableUntil: null },
      after: { immutableUntil: nextMonth },
    }),
  };

  const tellingAdmin = () => [{ afterMinutes: 0, userIds: [tenant.admin.id] }];
  const webhook = () =>
    make('/webhooks', {
      orgId: tenant.orgId,
      name: `Hook ${newId()}`,
      url: 'https://1.1.1.1/hook',
      eventTypes: ['alert.raised'],
    });
  const group = () => make('/groups', { orgId: tenant.orgId, name: `Group ${newId()}`, type: 'static' });
  const key = () => make('/backup/encryption/keys', { orgId: tenant.orgId, name: `Key ${newId()}` });
  const withFactor = async () => {
    const by = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    return { by, factor: await enableSecondFactor(app, by) };
  };

  Object.assign(BY_POST, {
    'POST /api-keys/:id/rotate': async () => ({
      path: `/api-keys/${await make('/api-keys', { name: 'Key', scopes: ['devices:read'] })}/rotate`,
      before: { keyPrefix: '(secret)', keyHash: '(secret)' },
      after: { keyPrefix: '(secret)', keyHash: '(secret)' },
    }),
    'POST /webhooks/:id/rotate-secret': async () => ({
      path: `/webhooks/${await webhook()}/rotate-secret`,
      body: {},
      before: { sealedSecret: '(secret)' },
      after: { sealedSecret: '(secret)' },
      hasMore: true,
    }),
    'POST /event-log-questions/:id/cancel': async () => {
      const id = await make('/event-log-questions', {
        target: { deviceIds: [await device()] },
        query: { name: 'System' },
        orgId: tenant.orgId,
      });
      const path = `/event-log-questions/${id}/cancel`;
      return { path, before: { cancelledAt: null }, after: {}, hasMore: true };
    },
    'POST /maintenance-windows/:id/end': async () => {
      const began = new Date(Date.now() - 60_000);
      const id = await make('/maintenance-windows', {
        ...windowAt(began.toISOString().slice(0, 16)),
        name: `Window ${newId()}`,
      });
      const endsAt = new Date(Math.floor(began.getTime() / 60_000) * 60_000 + 3_600_000).toISOString();
      return {
        path: `/maintenance-windows/${id}/end`,
        before: { endsAt },
        after: {},
        hasMore: true,
      };
    },
    'POST /groups/:id/devices': async () => ({
      path: `/groups/${await group()}/devices`,
      body: { deviceIds: [await device()] },
      before: { deviceCount: 0 },
      after: { deviceCount: 1 },
    }),
    'POST /groups/:id/devices/remove': async () => {
      const [groupId, deviceIds] = [await group(), [await device()]];
      const path = `/groups/${groupId}/devices`;
      await app.call('POST', path, { token: tenant.admin.token, body: { deviceIds } });
      return {
        path: `${path}/remove`,
        body: { deviceIds },
        before: { deviceCount: 1 },
        after: { deviceCount: 0 },
      };
    },
    'POST /alerts/bulk': async () => {
      const id = await alert();
      return {
        path: '/alerts/bulk',
        body: { alertIds: [id], action: 'acknowledge' },
        before: { alerts: { [id]: { status: 'active' } } },
        after: { alerts: { [id]: { status: 'acknowledged' } } },
      };
    },
    'POST /backup/encryption/keys/:id/rotate': async () => ({
      path: `/backup/encryption/keys/${await key()}/rotate`,
      before: { version: 1, status: 'active' },
      after: { version: 2, status: 'rotating' },
      hasMore: true,
    }),
    'PATCH /auth/passkeys/:id': async () => {
      const by = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const { id } = await passkeysOf(app).register(by, { name: 'Old' });
      return {
        path: `/auth/passkeys/${id}`,
        by,
        body: { name: 'New' },
        before: { name: 'Old' },
        after: { name: 'New' },
      };
    },
    'POST /auth/mfa/enable': async () => {
      const by = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const setup = await app.call('POST', '/auth/mfa/setup', {
        token: by.token,
        body: { currentPassword: PASSWORD },
      });
      const body = { code: codeOf(setup.body.secret) };
      return {
        path: '/auth/mfa/enable',
        by,
        body,
        before: { mfaEnabled: false, app: false },
        after: { mfaEnabled: true, app: true },
      };
    },
    'POST /auth/mfa/disable': async () => {
      const { by, factor } = await withFactor();
      const body = { currentPassword: PASSWORD, code: factor.code() };
      return {
        path: '/auth/mfa/disable',
        by,
        body,
        before: { mfaEnabled: true, app: true },
        after: { mfaEnabled: false, app: false },
      };
    },
    'POST /auth/mfa/recovery-codes': async () => {
      const { by, factor } = await withFactor();
      const body = { currentPassword: PASSWORD, code: factor.code() };
      return {
        path: '/auth/mfa/recovery-codes',
        by,
        body,
        before: { unusedCodes: 'earlier: 10' },
        after: { unusedCodes: 'new: 10' },
      };
    },
    ...workUpdates(() => ({ app, orgId: tenant.orgId, system, make, device, key, connect })),
  } satisfies Record<string, () => Promise<Update>>);

  it('are asked below of every route that updates something', () => {
    expect(updates).to.have.members(
      [UPDATES, BY_POST, NO_CHANGE, NOT_ASKED].flatMap((some) => Object.keys(some)),
    );
  });

  for (const [route, prepare] of Object.entries({ ...UPDATES, ...BY_POST })) {
    it(`are in the entry of ${route}`, async () => {
      const { path, body, by = tenant.admin, before, after, hasMore } = await prepare();
      const [method] = route.split(' ');
      const answer = await app.call(method!, path, { token: by.token, body });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      await app.server.chainWriter.flush();
      // A tenant does not see what concerns the whole installation.
      const reader = by === system ? system : tenant.admin;
      const { entries } = (await app.call('GET', '/audit-logs?limit=10', { token: reader.token })).body;
      // By now, the server may have recorded what it has done after the request, which has no address.
      const { changes } = entries.find(({ ipAddress }: { ipAddress: string | null }) => ipAddress !== null);
      expect(changes.before, 'before').to.deep.include(before);
      expect(changes.after, 'after').to.deep.include(after);
      expect(JSON.stringify(entries)).not.to.include('hunter2');
      // What stayed is not repeated.
      if (hasMore !== true) expect(Object.keys(changes.after)).to.have.members(Object.keys(after));
    });
  }
});
