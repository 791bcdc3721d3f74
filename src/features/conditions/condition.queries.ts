import type { DeviceStatus } from '../../../protocol/index.ts';
import type { Query } from '../../../platform/db/pool.ts';
import { STATUS_SQL } from '../fields/device-source.ts';
import type { Dependency } from '../fields/field.ts';
import type { MatchableDevice } from '../fields/matchable-device.ts';

/** Reads devices from the database for evaluation in memory. */

interface MatchableRow extends Omit<MatchableDevice, 'enrolledAt' | 'lastSeenAt' | 'metrics'> {
  status: DeviceStatus;
  enrolledAt: Date;
  lastSeenAt: Date | null;
  cpuPercent: number | null;
  ramPercent: number | null;
  diskPercent: number | null;
}

const GROUPS = `array(select m.group_id from device_group_members m
  where m.org_id = d.org_id and m.device_id = d.id order by m.group_id)`;
const SOFTWARE = `array(select distinct t.name from device_software s
  join software_titles t on t.org_id = s.org_id and t.id = s.title_id
  where s.org_id = d.org_id and s.device_id = d.id order by t.name)`;

/** @param reads  the needed parts; groups and software are read only if included */
export function selectMatchable(query: Query, reads: ReadonlySet<Dependency>): Query<MatchableRow> {
  const { client } = query;
  const list = (sql: string, type: string, isRead: boolean) => client.raw(isRead ? sql : `'{}'::${type}[]`);
  return query.select({
    id: 'd.id',
    orgId: 'd.org_id',
    siteId: 'd.site_id',
    hostname: 'd.hostname',
    displayName: 'd.display_name',
    agentVersion: 'd.agent_version',
    status: client.raw(STATUS_SQL),
    enrolledAt: 'd.enrolled_at',
    lastSeenAt: 'p.last_seen_at',
    tags: 'd.tags',
    osType: 'd.os_type',
    osVersion: 'd.os_version',
    osBuild: 'd.os_build',
    architecture: 'd.architecture',
    hardware: 'd.hardware',
    network: 'd.network',
    cpuPercent: 'p.cpu_percent',
    ramPercent: 'p.ram_percent',
    diskPercent: 'p.disk_percent',
    customFields: 'd.custom_fields',
    groupIds: list(GROUPS, 'uuid', reads.has('groupIds')),
    software: list(SOFTWARE, 'text', reads.has('software')),
  });
}

export function toMatchable({
  cpuPercent: cpu,
  ramPercent: ram,
  diskPercent: disk,
  ...row
}: MatchableRow): MatchableDevice {
  return {
    ...row,
    enrolledAt: row.enrolledAt.getTime(),
    lastSeenAt: row.lastSeenAt?.getTime() ?? null,
    metrics:
      cpu === null || ram === null || disk === null
        ? null
        : { cpuPercent: hundredths(cpu), ramPercent: hundredths(ram), diskPercent: hundredths(disk) },
  };
}

/** Rounds to hundredths: 12.3 in single precision reads as 12.300000190734863. */
const hundredths = (value: number) => Math.round(value * 100) / 100;
