import { z } from 'zod';
import { DeviceSummary } from '../../protocol/index.ts';

/** What is shown; of the answer of REST, JSON output keeps everything. */
export const Device = DeviceSummary.extend({
  osVersion: z.string().optional(),
  architecture: z.string().optional(),
  lastIp: z.string().nullish(),
  tags: z.array(z.string()).optional(),
}).loose();
export type Device = z.infer<typeof Device>;

const percent = (value: number | undefined) => (value === undefined ? '' : `${Math.round(value)} %`);

export const COLUMNS = {
  hostname: ({ hostname }: Device) => hostname,
  name: ({ displayName }: Device) => displayName ?? '',
  status: ({ status }: Device) => status,
  since: ({ presence }: Device) => presence.since,
  reason: ({ presence }: Device) => presence.reason,
  os: ({ osType }: Device) => osType,
  osVersion: ({ osVersion = '' }: Device) => osVersion,
  architecture: ({ architecture = '' }: Device) => architecture,
  agent: ({ agentVersion }: Device) => agentVersion,
  lastSeen: ({ lastSeenAt }: Device) => lastSeenAt ?? 'never',
  ip: ({ lastIp }: Device) => lastIp ?? '',
  cpu: ({ metrics }: Device) => percent(metrics?.cpuPercent),
  ram: ({ metrics }: Device) => percent(metrics?.ramPercent),
  disk: ({ metrics }: Device) => percent(metrics?.diskPercent),
  tags: ({ tags = [] }: Device) => tags.join(','),
  id: ({ id }: Device) => id,
  org: ({ orgId }: Device) => orgId,
  site: ({ siteId }: Device) => siteId,
} as const;
export type ColumnName = keyof typeof COLUMNS;
