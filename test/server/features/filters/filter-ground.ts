import { buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { LINUX } from './conditions.ts';

type Tenant = Awaited<ReturnType<typeof buildTenant>>;

/** For a `describe`: a server for all of its tests, with a stranger's tenant, and a tenant of its own for each. */
export function filterGround() {
  let app: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;

  before(async () => {
    app = await sharedTestApp();
    stranger = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, body?: unknown, person: Person = tenant.admin) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const owner = (sql: string, values: unknown[] = []) => asOwner(app.database.ownerUrl, sql, values);
  return {
    get app() {
      return app;
    },
    get tenant() {
      return tenant;
    },
    get stranger() {
      return stranger;
    },
    send,
    owner,
    create: (more: object = {}, person?: Person) =>
      send('POST', '/filters', { orgId: tenant.orgId, name: 'Linux', conditions: LINUX, ...more }, person),
    async trailOf(action: string, orgId: string | null = tenant.orgId) {
      await app.server.chainWriter.flush();
      return owner(
        `select resource_id, resource_name, details from audit_logs where action = $1
          and (org_id = $2 or (org_id is null and $2::uuid is null and partner_id = $3)) order by id`,
        [action, orgId, tenant.partnerId],
      );
    },
    pathsOf: (answer: { body: { details: { path: string }[] } }) =>
      answer.body.details.map(({ path }) => path),
  };
}
