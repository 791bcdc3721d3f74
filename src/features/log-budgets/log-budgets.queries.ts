import type { AgentContext } from '../../platform/context.ts';
import { runPrepared } from '../../platform/db/prepared.ts';
import type { Amounts, Usage } from './budget.ts';

interface UsageRow {
  day_entries: string;
  day_bytes: string;
  entries: string;
  bytes: string;
}

const SUMS = `coalesce(sum(entries) filter (where day = (now() at time zone 'utc')::date), 0) as day_entries,
  coalesce(sum(bytes) filter (where day = (now() at time zone 'utc')::date), 0) as day_bytes,
  coalesce(sum(entries), 0) as entries, coalesce(sum(bytes), 0) as bytes`;

const OF_DEVICE = {
  name: 'log-budget-of-device',
  text: `select ${SUMS} from stored_log_days where org_id = $1 and device_id = $2`,
};
const OF_ORGANIZATION = {
  name: 'log-budget-of-organization',
  text: `select ${SUMS} from stored_log_days where org_id = $1`,
};
const ADD = {
  name: 'log-budget-add',
  text: `insert into stored_log_days (device_id, org_id, day, entries, bytes)
    select id, org_id, (now() at time zone 'utc')::date, $3, $4 from devices where org_id = $1 and id = $2
    on conflict (device_id, day) do update
      set entries = stored_log_days.entries + excluded.entries, bytes = stored_log_days.bytes + excluded.bytes`,
};

const usageOf = (row: UsageRow | undefined): Usage => ({
  day: { entries: Number(row?.day_entries ?? 0), bytes: Number(row?.day_bytes ?? 0) },
  total: { entries: Number(row?.entries ?? 0), bytes: Number(row?.bytes ?? 0) },
});

export const usageOfDevice = async ({ tx, agent }: AgentContext): Promise<Usage> =>
  usageOf((await runPrepared<UsageRow>(tx, OF_DEVICE, [agent.orgId, agent.deviceId]))[0]);

/** Reads a row for each device and day of the organization. */
export const usageOfOrganization = async ({ tx, agent }: AgentContext): Promise<Usage> =>
  usageOf((await runPrepared<UsageRow>(tx, OF_ORGANIZATION, [agent.orgId]))[0]);

export async function addUsage({ tx, agent }: AgentContext, { entries, bytes }: Amounts): Promise<void> {
  await runPrepared(tx, ADD, [agent.orgId, agent.deviceId, entries, bytes]);
}
