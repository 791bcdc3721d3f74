import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { DemoClient } from './client.ts';

/**
 * What the people of a provider have set up, made through the API by the administrator of the demo: filters and the
 * groups that follow them, scripts and their runs, tags, and devices in maintenance. A second run changes nothing.
 */

const Named = z.object({ id: z.string(), name: z.string() });
const List = z.object({ data: z.array(Named) });
const Customers = z.object({ data: z.array(Named.extend({ slug: z.string() })) });
const Device = z.object({
  id: z.string(),
  orgId: z.string(),
  hostname: z.string(),
  osType: z.string(),
  status: z.string(),
});
type Device = z.infer<typeof Device>;
const Anything = z.looseObject({});
const HOUR_MS = 3_600_000;

const is = (field: string, operator: string, value: unknown) => ({ field, operator, value });
const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });
const any = (...conditions: unknown[]) => ({ operator: 'OR', conditions });

/** Each filter with a name for a group uses it. */
const FILTERS = [
  {
    of: 'northway-logistics',
    name: 'Unseen for a week',
    description: 'Somebody should ask where they are.',
    conditions: all(is('daysSinceLastSeen', 'greaterThan', 7), is('status', 'notEquals', 'maintenance')),
  },
  {
    of: 'bright-smile-dental',
    name: 'Disks that fill up',
    description: 'Online, and less than a fifth of the disk is free.',
    conditions: all(is('status', 'equals', 'online'), is('metrics.diskPercent', 'greaterThan', 80)),
    group: 'Clean up this week',
  },
  {
    of: 'northway-logistics',
    name: 'Remote control software',
    description: 'Programs that our contract does not allow on machines of the depots.',
    conditions: all(
      is('osType', 'equals', 'windows'),
      any(
        is('software.installed', 'contains', 'AnyDesk'),
        is('software.installed', 'contains', 'TeamViewer'),
      ),
    ),
    group: 'Remote control to remove',
  },
  {
    of: 'harbour-street-school',
    name: 'Macs and servers',
    description: null,
    conditions: any(is('osType', 'equals', 'macos'), is('osType', 'equals', 'linux')),
    group: 'Not Windows',
  },
  {
    of: 'alder-finch-law',
    name: 'To be replaced',
    description: 'Windows 10, or little memory with few cores.',
    conditions: all(
      is('osType', 'equals', 'windows'),
      any(
        is('osVersion', 'contains', 'Windows 10'),
        all(is('hardware.ramTotalMb', 'lessThanOrEquals', 8192), is('hardware.cpuCores', 'lessThan', 6)),
      ),
    ),
    group: 'Replacement in spring',
  },
] as const;

const SCRIPTS = [
  {
    name: 'Free space on the system disk',
    description: 'Removes what Windows Update and the browsers can fetch again.',
    language: 'powershell',
    osTypes: ['windows'],
    content:
      'Remove-Item $env:TEMP\\* -Recurse -Force -ErrorAction SilentlyContinue\nGet-PSDrive C | Select-Object Used, Free\n',
    runsOn: { osType: 'windows', devices: 8 },
  },
  {
    name: 'Restart the print spooler',
    description: null,
    language: 'powershell',
    osTypes: ['windows'],
    content: 'Restart-Service -Name Spooler\nGet-Service -Name Spooler\n',
    runsOn: { osType: 'windows', devices: 2 },
  },
  {
    name: 'Pending security updates',
    description: 'Counts the packages of Debian’s security archive that wait.',
    language: 'bash',
    osTypes: ['linux'],
    content: "apt-get --just-print upgrade | grep -c '^Inst.*security' || true\n",
    runsOn: { osType: 'linux', devices: 6 },
  },
  {
    name: 'Who is signed in',
    description: null,
    language: 'bash',
    osTypes: ['linux', 'macos'],
    content: 'who -u\n',
  },
] as const;

const PILOT = { of: 'northway-logistics', name: 'Pilot machines', devices: 6 };
const MAINTENANCE = { devices: 3, hours: 5 };

export async function setUpWork(client: DemoClient): Promise<void> {
  const { data: customers } = await client.get('/orgs/organizations?limit=100', Customers);
  const orgIds = new Map(customers.map(({ slug, id }) => [slug, id]));
  const { data: devices } = await client.get(
    '/devices?limit=100&status=online&sort=hostname',
    z.object({ data: z.array(Device) }),
  );
  await makeFiltersAndGroups(client, orgIds, devices);
  await makeScripts(client, devices);
  await markDevices(client, devices);
}

async function makeFiltersAndGroups(
  client: DemoClient,
  orgIds: ReadonlyMap<string, string>,
  devices: readonly Device[],
): Promise<void> {
  const filters = namesOf(await client.get('/filters', List));
  const groups = namesOf(await client.get('/groups?limit=100', List));
  for (const { of, ...filter } of FILTERS) {
    const { name, description, conditions } = filter;
    if (filters.has(name)) continue;
    const orgId = orgIds.get(of);
    const made = await client.post(
      '/filters',
      { orgId, name, description, conditions },
      z.object({ id: z.string() }),
    );
    if (!('group' in filter) || groups.has(filter.group)) continue;
    await client.post('/groups', { orgId, name: filter.group, type: 'dynamic', filterId: made.id }, Anything);
  }
  if (groups.has(PILOT.name)) return;
  const orgId = orgIds.get(PILOT.of);
  const pilots = devices.filter((device) => device.orgId === orgId).slice(0, PILOT.devices);
  const group = { orgId, name: PILOT.name, type: 'static', deviceIds: idsOf(pilots) };
  await client.post(
    '/groups',
    { ...group, description: 'They get what is new a week before the others.' },
    Anything,
  );
}

async function makeScripts(client: DemoClient, devices: readonly Device[]): Promise<void> {
  const scripts = namesOf(await client.get('/scripts?limit=100', List));
  for (const { name, description, language, osTypes, content, ...more } of SCRIPTS) {
    if (scripts.has(name)) continue;
    const script = { name, description, language, osTypes, content };
    const { id } = await client.post('/scripts', script, z.object({ id: z.string() }));
    if (!('runsOn' in more)) continue;
    const { osType, devices: most } = more.runsOn;
    const deviceIds = idsOf(devices.filter((device) => device.osType === osType).slice(0, most));
    if (deviceIds.length > 0) await client.post(`/scripts/${id}/execute`, { deviceIds }, Anything);
  }
}

async function markDevices(client: DemoClient, devices: readonly Device[]): Promise<void> {
  const { total } = await client.get(
    '/devices?limit=1&status=maintenance',
    z.object({ pagination: z.object({ total: z.number() }) }).transform(({ pagination }) => pagination),
  );
  if (total > 0) return;
  const change = async (chosen: readonly Device[], action: object) => {
    if (chosen.length > 0) await client.post('/devices/bulk', { deviceIds: idsOf(chosen), action }, Anything);
  };
  const servers = devices.filter(({ osType }) => osType === 'linux');
  await change(servers, { type: 'tags', add: ['server'] });
  const until = new Date(clock.now() + MAINTENANCE.hours * HOUR_MS).toISOString();
  await change(servers.slice(-MAINTENANCE.devices), { type: 'maintenance', enabled: true, until });
}

const namesOf = ({ data }: z.infer<typeof List>) => new Set(data.map(({ name }) => name));
const idsOf = (devices: readonly Device[]) => devices.map(({ id }) => id);
