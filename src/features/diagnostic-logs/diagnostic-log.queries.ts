import type { AgentContext } from '../../platform/context.ts';
import { runPrepared } from '../../platform/db/prepared.ts';
import { notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { DiagnosticLine } from '../../protocol/index.ts';

// The whole batch in one statement, planned once per connection for any size.
const STORE = {
  name: 'diagnostic-logs-store',
  text: `
    with device as (select id, org_id, agent_version from devices where org_id = $1 and id = $2),
    stored as (
      insert into agent_logs (id, device_id, org_id, "timestamp", level, component, message, fields, agent_version)
      select line.id, device.id, device.org_id, line."timestamp", line.level, line.component, line.message,
        line.fields::jsonb, coalesce(line.agent_version, device.agent_version)
      from device cross join unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[])
        as line (id, "timestamp", level, component, message, fields, agent_version)
    )
    select id from device`,
};

/** Stores lines of the agent's own log. Throws `not_found` where the device has been deleted. */
export async function storeDiagnosticLines(
  { tx, agent }: AgentContext,
  lines: readonly DiagnosticLine[],
): Promise<{ received: number }> {
  const [device] = await runPrepared<{ id: string }>(tx, STORE, [
    agent.orgId,
    agent.deviceId,
    lines.map(() => newId()),
    lines.map(({ timestamp }) => timestamp),
    lines.map(({ level }) => level),
    lines.map(({ component }) => component),
    lines.map(({ message }) => message),
    lines.map(({ fields }) => (fields === undefined ? null : JSON.stringify(fields))),
    lines.map(({ agentVersion }) => agentVersion ?? null),
  ]);
  if (device === undefined) throw notFound('Device');
  return { received: lines.length };
}
