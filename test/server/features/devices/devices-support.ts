import { withSystem } from '../../../../src/platform/db/transaction.ts';
import type { buildTenant, Person } from '../../../support/factories.ts';
import type { Answer, TestApp } from '../../../support/test-app.ts';

export type Tenant = Awaited<ReturnType<typeof buildTenant>>;

export interface Entry {
  action: string;
  org_id: string;
  actor_type: string;
  actor_id: string;
  resource_name: string;
  details: Record<string, unknown>;
}

/** What tests of devices do over and over. */
export function deviceGround(app: () => TestApp, who: () => Person) {
  const send = (method: string, path: string, body?: unknown, person: Person = who()): Promise<Answer> =>
    app().call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const sql = async <Row = Record<string, unknown>>(text: string, values: readonly unknown[] = []) =>
    withSystem(app().server.database.pool, 'test', async (tx) => {
      const { rows } = await tx.raw<{ rows: Row[] }>(text, values as string[]);
      return rows;
    });
  return {
    send,
    sql,
    read: async (id: string) => (await send('GET', `/devices/${id}`)).body,
    /** The entries about a resource, in their order; enrolling left out. */
    async auditOf(resourceId: string): Promise<Entry[]> {
      await app().server.chainWriter.flush();
      return sql<Entry>(
        `select action, org_id, actor_type, actor_id, resource_name, details from audit_logs
        where resource_id = ? and action <> 'device.create' and result = 'success' order by "timestamp", seq`,
        [resourceId],
      );
    },
    define: (orgId: string, key: string, type: string) =>
      send('POST', '/custom-fields', { orgId, key, name: 'Field', type }),
  };
}

export const pathsOf = ({ status, body }: Answer) => [
  status,
  ...((body.details as { path: string }[] | undefined) ?? []).map(({ path }) => path),
];
