import { buildDevice, type buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

export type Tenant = Awaited<ReturnType<typeof buildTenant>>;

export const SCRIPT = { name: 'Clean up', language: 'bash', content: 'rm -rf "$PARAM_FOLDER"' };

/** What tests of script runs and of their schedules do again and again. */
export function runGround(app: () => TestApp, tenant: () => Tenant) {
  const call = (method: string, path: string, body?: unknown, token = tenant().admin.token) =>
    app().call(method, path, { token, ...(body === undefined ? {} : { body }) });
  const owner = <Row extends Record<string, unknown>>(sql: string, values?: unknown[]) =>
    asOwner<Row>(app().database.ownerUrl, sql, values);
  return {
    call,
    owner,
    /** A device that can run scripts. */
    async able(orgId = tenant().orgId, machine: Record<string, unknown> = {}): Promise<EnrolledDevice> {
      const made = await buildDevice(app(), orgId, machine);
      await owner(`update devices set capabilities = '{script.run}' where id = $1`, [made.deviceId]);
      return made;
    },
    /** Many devices that can run scripts and have never connected, with their ids. */
    async many(count: number, { orgId, siteId }: { orgId: string; siteId: string } = tenant()) {
      const rows = await owner<{ id: string }>(
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version,
          capabilities, enrolled_at)
        select new_row_id(), $1, $2, 'M-' || n, 'linux', 'Debian 12', 'x64', '1.0.0', '{script.run}', now()
        from generate_series(1, ${count}) n returning id`,
        [orgId, siteId],
      );
      return rows.map(({ id }) => id);
    },
    async script(more: Record<string, unknown> = {}, token?: string) {
      const { body } = await call('POST', '/scripts', { ...SCRIPT, ...more }, token);
      return body;
    },
    /** Starts a run, and lets the job add its commands. */
    async started(scriptId: string, body: object, token?: string) {
      const answer = await call('POST', `/scripts/${scriptId}/runs`, body, token);
      await app().settle();
      return answer;
    },
    /** Ends commands of a run as devices would, by the outputs of each. */
    async report(runId: string, outputs: readonly { deviceId: string; output: object }[]) {
      for (const { deviceId, output } of outputs) {
        // oxlint-disable-next-line no-await-in-loop
        await owner(
          `update commands set status = 'succeeded', started_at = now() - interval '2 seconds', finished_at = now(),
            output = $3 where execution_id = $1 and device_id = $2`,
          [runId, deviceId, JSON.stringify(output)],
        );
      }
    },
  };
}
