import { expect } from 'chai';
import { newId } from '../../src/platform/ids.ts';
import {
  buildDevice,
  buildPerson,
  buildTenant,
  giveSecondFactor,
  type Person,
} from '../support/factories.ts';
import { asOwner } from '../support/test-postgres.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { allRows, nameOf } from './row-kinds.ts';

/**
 * A user who changes a partner as a whole reaches all its organizations: the change counts in those that a user with access
 * to some, or to none, does not reach. The rule is `assertActsForWholePartner`.
 */

/** Tables with rows that may belong to a partner as a whole, and below which paths they are changed. */
const PATHS: Record<string, RegExp> = {
  partners: /^\/orgs\/(partners\/me|organizations\/order)$/,
  organizations: /^\/orgs\/organizations$/,
  partner_login_branding: /^\/partners\/me\//,
  partner_users: /^\/users(\/|$)(?!me$)/,
  roles: /^\/roles/,
  scripts: /^\/scripts/,
  sso_providers: /^\/sso\/providers/,
  webhooks: /^\/webhooks/,
  alert_rules: /^\/alert-rules/,
  event_log_questions: /^\/event-log-questions/,
  script_schedules: /^\/script-schedules/,
  maintenance_windows: /^\/maintenance-windows/,
  notification_channels: /^\/notification-channels/,
  notification_policies: /^\/notification-policies/,
  report_schedules: /^\/reports\/schedules/,
};
/** Tables with a partner, of which no user changes a row for the whole of it. */
const NOT_OF_A_WHOLE: Record<string, string> = {
  audit_logs: 'only added to, by the trail',
  audit_outbox: 'only added to, by the trail',
  background_jobs: 'made and changed by the server',
  work: 'made and changed by the server',
  webhook_events: 'written by triggers',
  saved_views: 'of one person, who may show it to others',
  script_schedule_secrets: 'below /script-schedules, with the schedule',
  script_runs: 'of the devices that it runs on, which the user reaches',
  webhook_deliveries: 'made and changed by the server; repeating one is below /webhooks',
  membership_invitations: 'below /users, with the memberships that they become',
  invitations: 'no code uses it',
};

/** What these paths change beside a partner as a whole, each with the reason why access to some organizations will do. */
const OF_LESS: Record<string, string> = {
  'POST /maintenance-windows/preview': 'it only computes times',
  'POST /script-schedules/preview': 'it only computes times',
  'PATCH /orgs/organizations/order': 'it moves only the organizations that the user reaches',
  'POST /scripts/:id/execute': 'it runs on devices that the user reaches, and changes no script',
  'POST /scripts/:id/runs': 'it runs on devices that the user reaches, and changes no script',
  'POST /notification-policies/simulate': 'it changes nothing',
  'PATCH /users/me/notification-settings': 'it changes what the user is told, and nobody else',
  'POST /users/me/notification-settings/address-code': 'it mails the user, and nobody else',
  'POST /users/me/notification-settings/verify-address': 'it changes where the user is told, and nobody else',
  'POST /webhooks/:id/deliveries/:deliveryId/replay':
    'it asks for a webhook that the user sees, as /replay does',
};

interface Attempt {
  path: string;
  body?: object;
}

describe('a change of a partner as a whole', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let limited: Person[];
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    const { partnerId, orgId } = tenant;
    limited = await Promise.all([
      buildPerson(app, { scope: 'partner', partnerId, orgAccess: 'none' }),
      buildPerson(app, { scope: 'partner', partnerId, orgAccess: 'selected', orgIds: [orgId] }),
    ]);
    for (const person of [tenant.admin, ...limited]) await giveSecondFactor(app, person);
  });
  after(() => app.close());

  const make = async (path: string, body: object): Promise<string> => {
    const made = await app.call('POST', path, { token: tenant.admin.token, body });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    return made.body.id as string;
  };
  const once = (make: () => Promise<string>) => {
    let made: Promise<string> | undefined;
    return () => (made ??= make());
  };
  const SCRIPT = { name: 'Of all', language: 'bash', content: 'true' };
  const WEBHOOK = { name: 'Of all', url: 'https://1.1.1.1/hook', eventTypes: ['alert.raised'] };
  const WINDOW = {
    name: 'Of all',
    target: { all: true },
    timezone: 'UTC',
    start: '2100-01-01T00:00',
    durationMinutes: 60,
  };
  const QUESTION = { target: { all: true }, query: { name: 'System' } };
  const RULE = {
    name: 'Of all',
    severity: 'high',
    target: { all: true },
    condition: { kind: 'offline', forMinutes: 5 },
  };
  const CHANNEL = { name: 'Of all', type: 'email', details: { address: 'ada@example.com' } };
  const REPORTS = {
    name: 'Of all',
    dayOfMonth: 1,
    time: '08:30',
    timezone: 'UTC',
    userIds: [],
    addresses: ['ada@example.com'],
  };
  const policyBody = (name: string) => ({ name, steps: [{ afterMinutes: 0, userIds: [tenant.admin.id] }] });
  const ROLE = { name: 'Of all', scope: 'partner', permissions: ['devices:read'] };
  const PROVIDER = { ownerScope: 'partner', name: 'Of all', type: 'oidc' };
  const script = once(() => make('/scripts', SCRIPT));
  const webhook = once(() => make('/webhooks', WEBHOOK));
  const maintenance = once(() => make('/maintenance-windows', WINDOW));
  const question = once(async () => {
    await buildDevice(app, tenant.orgId);
    return make('/event-log-questions', QUESTION);
  });
  const alertRule = once(() => make('/alert-rules', RULE));
  const reports = once(() => make('/reports/schedules', REPORTS));
  const scheduleBody = async (name: string) => ({
    name,
    scriptId: await script(),
    cron: '30 2 * * *',
    timezone: 'UTC',
    target: { all: true },
  });
  const scriptSchedule = once(async () => make('/script-schedules', await scheduleBody('Of all')));
  const channel = once(() => make('/notification-channels', CHANNEL));
  const policy = once(() => make('/notification-policies', policyBody('Of all')));
  const role = once(() => make('/roles', ROLE));
  const provider = once(() => make('/sso/providers', PROVIDER));
  const colleague = once(async () => {
    const { partnerId } = tenant;
    return (await buildPerson(app, { scope: 'partner', partnerId })).id;
  });
  const invited = once(async () =>
    make('/users/invite', {
      email: 'of-all@example.com',
      name: 'Of all',
      roleId: await role(),
      orgAccess: 'all',
    }),
  );

  /** For each of these routes a request that would change the whole. */
  const ATTEMPTS: Record<string, () => Promise<Attempt>> = {
    'PATCH /orgs/partners/me': async () => ({ path: '/orgs/partners/me', body: { name: 'Renamed' } }),
    'PUT /partners/me/login-branding': async () => ({
      path: '/partners/me/login-branding',
      body: { headline: 'Welcome' },
    }),
    'POST /scripts': async () => ({ path: '/scripts', body: { ...SCRIPT, name: 'Another' } }),
    'PATCH /scripts/:id': async () => ({ path: `/scripts/${await script()}`, body: { name: 'Renamed' } }),
    'DELETE /scripts/:id': async () => ({ path: `/scripts/${await script()}` }),
    'POST /webhooks': async () => ({ path: '/webhooks', body: { ...WEBHOOK, name: 'Another' } }),
    'PATCH /webhooks/:id': async () => ({ path: `/webhooks/${await webhook()}`, body: { name: 'Renamed' } }),
    'DELETE /webhooks/:id': async () => ({ path: `/webhooks/${await webhook()}` }),
    'POST /webhooks/:id/rotate-secret': async () => ({
      path: `/webhooks/${await webhook()}/rotate-secret`,
      body: {},
    }),
    'POST /webhooks/:id/test': async () => ({ path: `/webhooks/${await webhook()}/test` }),
    'POST /webhooks/:id/replay': async () => ({
      path: `/webhooks/${await webhook()}/replay`,
      body: { from: '2026-01-01', to: '2026-01-02', statuses: ['failed'] },
    }),
    'POST /maintenance-windows': async () => ({
      path: '/maintenance-windows',
      body: { ...WINDOW, name: 'Another' },
    }),
    'PATCH /maintenance-windows/:id': async () => ({
      path: `/maintenance-windows/${await maintenance()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /maintenance-windows/:id': async () => ({ path: `/maintenance-windows/${await maintenance()}` }),
    'POST /maintenance-windows/:id/end': async () => ({
      path: `/maintenance-windows/${await maintenance()}/end`,
    }),
    'POST /reports/schedules': async () => ({
      path: '/reports/schedules',
      body: { ...REPORTS, name: 'Another' },
    }),
    'PATCH /reports/schedules/:id': async () => ({
      path: `/reports/schedules/${await reports()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /reports/schedules/:id': async () => ({ path: `/reports/schedules/${await reports()}` }),
    'POST /event-log-questions': async () => ({ path: '/event-log-questions', body: QUESTION }),
    'POST /event-log-questions/:id/cancel': async () => ({
      path: `/event-log-questions/${await question()}/cancel`,
    }),
    'DELETE /event-log-questions/:id': async () => ({ path: `/event-log-questions/${await question()}` }),
    'POST /script-schedules': async () => ({
      path: '/script-schedules',
      body: await scheduleBody('Another'),
    }),
    'PATCH /script-schedules/:id': async () => ({
      path: `/script-schedules/${await scriptSchedule()}`,
      body: { enabled: false },
    }),
    'DELETE /script-schedules/:id': async () => ({
      path: `/script-schedules/${await scriptSchedule()}`,
    }),
    'POST /alert-rules': async () => ({ path: '/alert-rules', body: { ...RULE, name: 'Another' } }),
    'POST /alert-rules/preview': async () => ({
      path: '/alert-rules/preview',
      body: { target: RULE.target, condition: RULE.condition },
    }),
    'PATCH /alert-rules/:id': async () => ({
      path: `/alert-rules/${await alertRule()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /alert-rules/:id': async () => ({ path: `/alert-rules/${await alertRule()}` }),
    'POST /notification-channels': async () => ({
      path: '/notification-channels',
      body: { ...CHANNEL, name: 'Another' },
    }),
    'PATCH /notification-channels/:id': async () => ({
      path: `/notification-channels/${await channel()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /notification-channels/:id': async () => ({ path: `/notification-channels/${await channel()}` }),
    'POST /notification-channels/:id/test': async () => ({
      path: `/notification-channels/${await channel()}/test`,
    }),
    'POST /notification-policies': async () => ({
      path: '/notification-policies',
      body: policyBody('Another'),
    }),
    'PUT /notification-policies/order': async () => ({
      path: '/notification-policies/order',
      body: { policyIds: [await policy()] },
    }),
    'PATCH /notification-policies/:id': async () => ({
      path: `/notification-policies/${await policy()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /notification-policies/:id': async () => ({ path: `/notification-policies/${await policy()}` }),
    'POST /roles': async () => ({ path: '/roles', body: { ...ROLE, name: 'Another' } }),
    'PATCH /roles/:id': async () => ({ path: `/roles/${await role()}`, body: { name: 'Renamed' } }),
    'DELETE /roles/:id': async () => ({ path: `/roles/${await role()}` }),
    'POST /sso/providers': async () => ({ path: '/sso/providers', body: { ...PROVIDER, name: 'Another' } }),
    'PATCH /sso/providers/:id': async () => ({
      path: `/sso/providers/${await provider()}`,
      body: { name: 'Renamed' },
    }),
    'DELETE /sso/providers/:id': async () => ({ path: `/sso/providers/${await provider()}` }),
    'POST /sso/providers/:id/status': async () => ({
      path: `/sso/providers/${await provider()}/status`,
      body: { status: 'testing' },
    }),
    'POST /sso/providers/:id/test': async () => ({
      path: `/sso/providers/${await provider()}/test`,
      body: {},
    }),
    'POST /users/invite': async () => ({
      path: '/users/invite',
      body: { email: 'another@example.com', name: 'Another', roleId: await role(), orgAccess: 'all' },
    }),
    'POST /users/resend-invite': async () => ({
      path: '/users/resend-invite',
      body: { userId: await invited() },
    }),
    'PATCH /users/:id': async () => ({ path: `/users/${await colleague()}`, body: { name: 'Renamed' } }),
    'DELETE /users/:id': async () => ({ path: `/users/${await colleague()}` }),
    'POST /users/:id/role': async () => ({
      path: `/users/${await colleague()}/role`,
      body: { roleId: await role(), orgAccess: 'all' },
    }),
    'POST /users/:id/mfa/reset': async () => {
      const { id } = await giveSecondFactor(app, { id: await colleague() });
      return { path: `/users/${id}/mfa/reset` };
    },
    'POST /orgs/organizations': async () => ({
      path: '/orgs/organizations',
      body: { name: 'Another', slug: `another-${newId()}` },
    }),
  };

  it('is known of each table that has a partner', async () => {
    const tables = await asOwner<{ name: string }>(
      app.database.ownerUrl,
      `select c.table_name as name from information_schema.columns c
       join information_schema.tables t using (table_schema, table_name)
       where c.table_schema = 'public' and t.table_type = 'BASE TABLE' and c.column_name = 'partner_id'
         and not exists (select from information_schema.columns o where o.table_schema = 'public'
           and o.table_name = c.table_name and o.column_name = 'org_id' and o.is_nullable = 'NO')
         and not (select relispartition from pg_class where oid = to_regclass(quote_ident(c.table_name)))`,
    );
    const known = [...Object.keys(PATHS), ...Object.keys(NOT_OF_A_WHOLE)].filter(
      (name) => name !== 'partners',
    );
    expect(tables.map(({ name }) => name)).to.have.members(known);
  });

  it('is known of each route below the paths where such things are changed', () => {
    const changing = allRows.filter(
      ({ method, access, path }) =>
        method !== 'get' &&
        (typeof access === 'string' ? access === 'person' : access.scopes.includes('partner')) &&
        Object.values(PATHS).some((paths) => paths.test(path)),
    );
    const ofPartners = allRows.filter(
      ({ method, access }) =>
        method !== 'get' && typeof access === 'object' && access.scopes.join(' ') === 'partner',
    );
    expect([...new Set([...changing, ...ofPartners].map(nameOf))]).to.have.members([
      ...Object.keys(ATTEMPTS),
      ...Object.keys(OF_LESS),
    ]);
  });

  for (const [route, attempt] of Object.entries(ATTEMPTS)) {
    it(`is refused to a user with access to some organizations or none by ${route}`, async () => {
      const [method = ''] = route.split(' ');
      for (const { token } of limited) {
        const { path, body } = await attempt();
        const { status, body: answer } = await app.call(method, path, { token, body });
        expect(status, JSON.stringify(answer)).to.be.oneOf([403, 404]);
      }
    });
  }

  it('is taken from a user with access to all of them', async () => {
    for (const route of ['PATCH /orgs/partners/me', 'POST /scripts', 'POST /webhooks', 'POST /roles']) {
      const { path, body } = await ATTEMPTS[route]!();
      const [method = ''] = route.split(' ');
      const { status, body: answer } = await app.call(method, path, { token: tenant.admin.token, body });
      expect(status, `${route}: ${JSON.stringify(answer)}`).to.be.oneOf([200, 201]);
    }
  });
});
