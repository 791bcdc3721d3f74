import { z } from 'zod';
import { clock, HOUR_MS } from '../../clock.ts';
import type { DemoClient } from './data.ts';
import { SCRIPTS } from './scripts.ts';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../config.ts';
import { EngineError, probeEngine } from '../../engine/index.ts';
import { encryptionKeys } from '../../features/backup/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Server } from '../../server.ts';

/**
 * Settings of a provider's users, created through the API by the demo's administrator: filters and their groups,
 * scripts, their runs and a schedule, tags, devices in maintenance, who is told about alerts, and a maintenance window. A second run
 * changes nothing.
 */

const Id = z.object({ id: z.string() });
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

const is = (field: string, operator: string, value: unknown) => ({ field, operator, value });
const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });
const any = (...conditions: unknown[]) => ({ operator: 'OR', conditions });

/** Each filter with a name for a group uses it. */
const FILTERS = [
  {
    of: 'northway-logistics',
    name: 'Unseen for a week',
    description: 'An administrator should ask where they are.',
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

const PILOT = { of: 'northway-logistics', name: 'Pilot machines', devices: 5 };
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
  await scheduleScript(client);
  await markDevices(client, devices);
  await setUpNotifications(client);
  await planMaintenance(client, orgIds);
  await addAlertRules(client);
  await noteDevices(client, devices);
}

const NOTES = [
  { text: 'Reception. Call before a restart: patients are checked in here.', isPinned: true },
  { text: 'The fan was replaced under warranty.', isPinned: false },
] as const;

/** What a technician finds on the page of the first device. */
async function noteDevices(client: DemoClient, [device]: readonly Device[]): Promise<void> {
  if (device === undefined) return;
  const path = `/devices/${device.id}/notes`;
  const { data: known } = await client.get(path, z.object({ data: z.array(Id) }));
  if (known.length > 0) return;
  for (const note of NOTES) await client.post(path, note, Anything);
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

/** One of the scripts runs by itself, each night. */
const NIGHTLY = {
  script: 'Pending security updates',
  schedule: {
    name: 'Security updates, each night',
    cron: '30 3 * * *',
    timezone: 'Europe/London',
    target: { all: true },
  },
};

async function scheduleScript(client: DemoClient): Promise<void> {
  const schedules = namesOf(await client.get('/script-schedules?limit=100', List));
  if (schedules.has(NIGHTLY.schedule.name)) return;
  const { data: scripts } = await client.get(
    '/scripts?limit=100',
    z.object({ data: z.array(z.object({ id: z.string(), name: z.string() })) }),
  );
  const scriptId = scripts.find(({ name }) => name === NIGHTLY.script)?.id;
  if (scriptId === undefined) return;
  await client.post('/script-schedules', { ...NIGHTLY.schedule, scriptId }, Anything);
}

async function makeScripts(client: DemoClient, devices: readonly Device[]): Promise<void> {
  const scripts = namesOf(await client.get('/scripts?limit=100', List));
  for (const { name, description, language, osTypes, content, ...more } of SCRIPTS) {
    if (scripts.has(name)) continue;
    const parameters = 'parameters' in more ? more.parameters : [];
    const script = { name, description, language, osTypes, content, parameters };
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

/** Alerts go to a mailbox at once and to the administrator two minutes later, unless somebody acknowledges them before. */
async function setUpNotifications(client: DemoClient): Promise<void> {
  const { data: policies } = await client.get('/notification-policies?limit=1', List);
  if (policies.length > 0) return;
  const { user } = await client.get('/auth/me', z.object({ user: z.object({ id: z.string() }) }));
  const channel = await client.post(
    '/notification-channels',
    { name: 'Service desk', type: 'email', details: { address: 'service-desk@demo.example' } },
    Id,
  );
  await client.post(
    '/notification-policies',
    {
      name: 'Critical and high alerts',
      match: { severities: ['critical', 'high'] },
      steps: [
        { afterMinutes: 0, channelIds: [channel.id] },
        { afterMinutes: 2, userIds: [user.id] },
      ],
      groupBy: 'site',
      groupSeconds: 10,
    },
    Anything,
  );
}

const PATCH_NIGHT = {
  of: 'harbour-street-school',
  window: {
    name: 'Patch night',
    target: { all: true },
    timezone: 'Europe/London',
    start: '2026-01-13T20:00',
    durationMinutes: 180,
    repeat: { frequency: 'monthly', nthWeekday: { nth: 2, day: 'tue' } },
  },
};

async function planMaintenance(client: DemoClient, orgIds: ReadonlyMap<string, string>): Promise<void> {
  const { data: windows } = await client.get('/maintenance-windows?limit=100', List);
  if (namesOf({ data: windows }).has(PATCH_NIGHT.window.name)) return;
  await client.post(
    '/maintenance-windows',
    { orgId: orgIds.get(PATCH_NIGHT.of), ...PATCH_NIGHT.window },
    Anything,
  );
}

/** Beside those with which every organization begins. */
const RULES = [
  {
    name: 'Disk nearly out of space',
    severity: 'critical',
    condition: {
      kind: 'metric',
      metric: 'diskPercent',
      operator: 'greaterThanOrEquals',
      threshold: 97,
      clearThreshold: 95,
      forMinutes: 0,
    },
  },
  {
    name: 'Processor busy',
    severity: 'medium',
    condition: {
      kind: 'metric',
      metric: 'cpuPercent',
      operator: 'greaterThan',
      threshold: 90,
      clearThreshold: 75,
      forMinutes: 10,
    },
  },
  {
    name: 'Print spooler stopped',
    severity: 'medium',
    condition: { kind: 'service', name: 'Spooler', state: 'stopped', forMinutes: 2 },
  },
  {
    name: 'Remote access installed',
    severity: 'low',
    condition: { kind: 'software', name: 'TeamViewer', change: 'installed' },
  },
];

async function addAlertRules(client: DemoClient): Promise<void> {
  const known = namesOf(await client.get('/alert-rules?limit=100', List));
  for (const rule of RULES) {
    if (known.has(rule.name)) continue;
    await client.post('/alert-rules', { ...rule, target: { all: true } }, Anything);
  }
}

const namesOf = ({ data }: z.infer<typeof List>) => new Set(data.map(({ name }) => name));
const idsOf = (devices: readonly Device[]) => devices.map(({ id }) => id);

/** A backup of a small folder by the agent of this machine, so that there are files to browse and to restore. */

const NAME = 'Demo: files of this machine';
const JOB_TIMEOUT_MS = 120_000;

const Ids = z.object({ data: z.array(z.object({ id: z.string(), name: z.string() })) });
const ProtectedDevice = z.object({ orgId: z.string(), osType: z.string() });
const Job = z.object({
  status: z.string(),
  finishedAt: z.string().nullable(),
  error: z.object({ message: z.string() }).nullable(),
});
const Found = z.object({ data: z.array(Id) });

/** Whether backups can be made here: restic is installed. */
export async function hasEngine({ backupStore }: Config): Promise<boolean> {
  try {
    await probeEngine({ searchPath: backupStore.enginePath });
    return true;
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

interface Parts {
  server: Pick<Server, 'database' | 'secrets'>;
  client: DemoClient;
  deviceId: string;
  dataDir: string;
}

/** Makes the first backup; later starts keep it. Rejects with a reason for the user. */
export async function backUpThisMachine({ server, client, deviceId, dataDir }: Parts): Promise<void> {
  const { orgId, osType } = await client.get(`/devices/${deviceId}`, ProtectedDevice);
  const known = (await client.get(`/backup/configs?orgId=${orgId}`, Ids)).data.find(
    ({ name }) => name === NAME,
  );
  if (known !== undefined) {
    const snapshots = await client.get(`/backup/snapshots?deviceId=${deviceId}&configId=${known.id}`, Found);
    if (snapshots.data.length > 0) return;
  }
  const folder = await makeFolder(dataDir);
  const configId =
    known?.id ??
    (
      await client.post(
        '/backup/configs',
        {
          orgId,
          name: NAME,
          provider: 'server',
          // Over the API, creating a key requires a second factor.
          encryptionKeyId: await withSystem(server.database.pool, 'make the key of the demo', (tx) =>
            encryptionKeys.makeEncryptionKey(tx, { orgId, name: NAME }, server.secrets),
          ),
          sources: { paths: { [osType]: [folder] } },
          targets: { deviceIds: [deviceId] },
        },
        Id,
      )
    ).id;
  const { id } = await client.post(`/backup/jobs/run/${deviceId}`, { configId }, Id);
  for (const until = clock.now() + JOB_TIMEOUT_MS; clock.now() < until; ) {
    const job = await client.get(`/backup/jobs/${id}`, Job);
    if (job.status === 'completed' || job.status === 'partial') return;
    if (job.finishedAt !== null) throw new Error(job.error?.message ?? `it ended as ${job.status}.`);
    await clock.sleep(500);
  }
  throw new Error('it has not ended after two minutes.');
}

/** Text files in the folders of a typical office. */
async function makeFolder(dataDir: string): Promise<string> {
  const folder = path.resolve(dataDir, 'files-to-back-up');
  const rows = (count: number, step: number) =>
    Array.from(
      { length: count },
      (_none, nth) => `${nth},${Math.round(1000 + 200 * Math.sin(nth / step))}`,
    ).join('\n');
  const files: Record<string, string> = {
    'read-me.txt': 'Change or delete this file, and restore it from its backup.\n',
    'price list.csv': `item,price\n${rows(140, 5)}\n`,
    'opening hours.txt': 'Monday to Friday, 8:00 to 18:00\n',
    'contracts/2025 cleaning.txt': `The cleaning contract of 2025.\n${rows(400, 9)}\n`,
    'contracts/2026 cleaning.txt': `The cleaning contract of 2026.\n${rows(420, 9)}\n`,
    'invoices/2026-09.csv': `invoice,amount\n${rows(310, 7)}\n`,
    'invoices/2026-10.csv': `invoice,amount\n${rows(350, 8)}\n`,
    'reports/figures.csv': `day,visits\n${rows(2000, 30)}\n`,
  };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  return folder;
}
