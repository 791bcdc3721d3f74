import { parseConditions } from '../src/features/conditions/index.ts';
import { DashboardFeed } from '../src/hub/feed/dashboard-feed.ts';
import { DeviceChange, type DevicePatch } from '../src/hub/subscriptions/device-change.ts';
import { summaryOf } from '../src/hub/filters/fleet-device.ts';
import type { FleetDevice, CompiledRules, FleetStore } from '../src/hub/ports.ts';
import { LiveFilters } from '../src/hub/filters/live-filters.ts';
import { Subscription } from '../src/hub/subscriptions/subscription.ts';
import { newId } from '../src/platform/ids.ts';
import { CALLER } from '../test/support/feed-client.ts';
import { quietLog } from '../test/support/quiet-log.ts';

/**
 * `npm run bench:live-filters` measures the cost of one device change with 500 live filters over 100,000 devices in
 * memory, each filter with its own subscription. The baseline, in the same run, evaluates every filter for every
 * change and compares the result with the previous one. Each change is measured alone, from its arrival until all
 * subscriptions have recorded it. Frames are sent by timers and are included in the CPU time.
 */

const DEVICES = 100_000;
const ORGANIZATIONS = 200;
const FILTERS = 500;
const CHANGES = 2000;

let seed = 42;
const random = (below: number): number => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
};
const oneOf = <T>(...items: T[]): T => items[random(items.length)] as T;

const TAGS = Array.from({ length: 40 }, (_, n) => `tag-${n}`);
const TITLES = Array.from({ length: 300 }, (_, n) => `Program ${n}`);
const organizations = Array.from({ length: ORGANIZATIONS }, () => ({
  id: newId(),
  sites: [newId(), newId()],
}));
const groups = Array.from({ length: 400 }, newId);
const some = <T>(items: readonly T[], most: number) =>
  Array.from({ length: random(most + 1) }, () => oneOf(...items));

function device(n: number): FleetDevice {
  const { id: orgId, sites } = organizations[n % ORGANIZATIONS] ?? { id: '', sites: [''] };
  const status = oneOf('online', 'online', 'online', 'offline', 'maintenance');
  const since = new Date(Date.now() - random(1e9)).toISOString();
  const isConnected = status === 'online';
  // As read from the database: every string is a separate copy.
  return structuredClone<FleetDevice>({
    id: newId(),
    orgId,
    partnerId: 'partner',
    siteId: oneOf(...sites),
    groupIds: some(groups, 2),
    hostname: `DESK-${n.toString(36).toUpperCase()}`,
    displayName: random(3) === 0 ? `Till ${n}` : null,
    agentVersion: `1.${random(5)}.0`,
    status,
    maintenance: null,
    averages: {},
    presenceEpoch: 0,
    presence: {
      state: isConnected ? 'connected' : 'disconnected',
      since,
      reason: isConnected ? 'connected' : 'socket_closed',
    },
    enrolledAt: Date.now() - random(1e10),
    lastSeenAt: Date.now() - random(1e9),
    tags: some(TAGS, 4),
    osType: oneOf('windows', 'windows', 'macos', 'linux'),
    osVersion: `10.0.${random(30)}`,
    osBuild: `${19_000 + random(50)}`,
    architecture: 'x64',
    hardware: {
      manufacturer: oneOf('Dell', 'HP', 'Lenovo'),
      model: `Model ${random(60)}`,
      serialNumber: `SN${n}`,
      cpuCores: oneOf(4, 8, 16),
      ramTotalMb: oneOf(8192, 16_384),
      diskTotalGb: oneOf(256, 512),
    },
    network: { ipAddress: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`, macAddress: `00:00:00:${n}` },
    metrics: { cpuPercent: random(100), ramPercent: random(100), diskPercent: random(100) },
    software: some(TITLES, 16),
    customFields: { rack: `R${random(50)}`, critical: random(10) === 0 },
  });
}

type Condition = { field: string; operator: string; value?: unknown };
/** Typical conditions: mostly on status, operating system and tags, some on metrics. */
function condition(): Condition {
  switch (random(12)) {
    case 0:
    case 1:
      return { field: 'status', operator: 'equals', value: oneOf('online', 'offline') };
    case 2:
      return {
        field: oneOf('metrics.cpuPercent', 'metrics.diskPercent'),
        operator: 'greaterThan',
        value: 50 + random(45),
      };
    case 3:
    case 4:
      return { field: 'tags', operator: oneOf('hasAny', 'hasAll'), value: [oneOf(...TAGS)] };
    case 5:
      return { field: 'osType', operator: 'equals', value: oneOf('windows', 'macos', 'linux') };
    case 6:
      return { field: 'osVersion', operator: 'startsWith', value: `10.0.${random(3)}` };
    case 7:
      return { field: 'hostname', operator: 'contains', value: oneOf('DESK-1', 'A', 'zz') };
    case 8:
      return { field: 'daysSinceLastSeen', operator: 'greaterThan', value: 1 + random(30) };
    case 9:
      return { field: 'groupId', operator: 'in', value: some(groups, 3).concat(groups[0] ?? '') };
    case 10:
      return { field: 'custom.rack', operator: 'equals', value: `R${random(50)}` };
    default:
      return { field: 'hardware.ramTotalMb', operator: 'greaterThan', value: 10_000 };
  }
}

function rules(n: number): CompiledRules {
  const count = oneOf(1, 2, 2, 3, 3, 4, 6, 8, 12, 20);
  const conditions: object[] = Array.from({ length: count }, condition);
  // Two to four levels if there are enough conditions to nest.
  const nested =
    count < 4
      ? conditions
      : [
          ...conditions.slice(0, 2),
          {
            operator: 'OR',
            conditions: [conditions[2], { operator: 'AND', conditions: conditions.slice(3) }],
          },
        ];
  if (n % 100 === 0) {
    nested.push({ field: 'software.installed', operator: 'contains', value: `program ${random(30)}` });
  }
  const parsed = parseConditions(
    { operator: 'AND', conditions: nested },
    { customKinds: new Map([['rack', 'string']]) },
  );
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
  return parsed.conditions;
}

const heap = () => {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
};
const percentile = (sorted: readonly number[], part: number) =>
  sorted[Math.floor((sorted.length - 1) * part)] ?? 0;
function shown(times: number[]) {
  times.sort((a, b) => a - b);
  const us = (ms: number) => Math.round(ms * 1000);
  return {
    p50: us(percentile(times, 0.5)),
    p99: us(percentile(times, 0.99)),
    mean: us(times.reduce((a, b) => a + b, 0) / times.length),
  };
}

const stored = Array.from({ length: DEVICES }, (_, n) => device(n)).sort((a, b) =>
  a.orgId === b.orgId ? (a.id < b.id ? -1 : 1) : a.orgId < b.orgId ? -1 : 1,
);
const ids = stored.map(({ id }) => id);
const at = new Map(ids.map((id, index) => [id, index]));
const all = Array.from({ length: FILTERS }, (_, n) => rules(n));
let next = 0;
const store: FleetStore = {
  rules: async () => {
    const key = next++;
    return { key: String(key), rules: all[key] as CompiledRules };
  },
  reach: async () => organizations.map(({ id }) => ({ orgId: id, devices: DEVICES / ORGANIZATIONS })),
  async slice(_orgIds, { after, atMost, withSoftware }) {
    const from = after === undefined ? 0 : (at.get(after.id) ?? 0) + 1;
    return stored
      .slice(from, from + atMost)
      .map((one) => ({ ...structuredClone(one), ...(withSoftware ? {} : { software: [] }) }));
  },
  devices: async () => [],
};

const live = new LiveFilters({ store, refreshed: ({ device: one }) => one, log: quietLog, sweepMs: 1e9 });
const feed = new DashboardFeed(live);
const before = heap();
const subscriptions: Subscription[] = [];
/** The state of the baseline: the devices that each filter matched. */
const held: Set<string>[] = [];
let frames = 0;
let sizes = 0;
async function subscribe(): Promise<void> {
  const subscription: Subscription = new Subscription({
    caller: CALLER,
    filter: {},
    send: () => void (frames += 1),
    pages: () => live.pages(subscription),
  });
  feed.add(subscription);
  await live.follow(subscription, (why) => {
    throw why;
  });
  const [one] = all.slice(subscriptions.length);
  const now = Date.now();
  if (subscriptions.length === 0) await live.pages(subscription)();
  const devices = organizations
    .flatMap(({ id }) => [...live.view.of(id)])
    .filter((device) => one?.matches(device, now) === true)
    .map(summaryOf);
  sizes += devices.length;
  held.push(new Set(devices.map(({ id }) => id)));
  subscription.start(devices);
  subscriptions.push(subscription);
}
await subscribe();
const memory = Math.round((heap() - before) / DEVICES);
for (let n = 1; n < FILTERS; n++) {
  await subscribe();
}

const KINDS: Record<string, () => DevicePatch | 'tags'> = {
  presence: () => {
    const state = oneOf<'connected' | 'disconnected'>('connected', 'disconnected');
    const at = new Date().toISOString();
    return {
      presence: { state, since: at, reason: state === 'connected' ? 'connected' : 'socket_closed' },
      lastSeenAt: at,
    };
  },
  metrics: () => ({
    lastSeenAt: new Date().toISOString(),
    metrics: { cpuPercent: random(100), ramPercent: random(100), diskPercent: random(100) },
  }),
  tags: () => 'tags',
};

const figures: Record<string, object> = {};
for (const [kind, patchOf] of Object.entries(KINDS)) {
  const times: number[] = [];
  const plain: number[] = [];
  let cpu = 0;
  for (let n = -500; n < CHANGES; n++) {
    const id = ids[random(DEVICES)] ?? '';
    const patch = patchOf();
    const device = live.view.get(id);
    if (device === undefined) throw new Error('A device is missing.');
    const read = patch === 'tags' ? { ...device, tags: some(TAGS, 4) } : undefined;
    const usedBefore = process.cpuUsage();
    const from = performance.now();
    if (read !== undefined) feed.refreshed(summaryOf(read), read.partnerId, read);
    else {
      // As the feed handles a change that is not combined with others.
      const change = new DeviceChange(id, patch as DevicePatch);
      live.deviceChanged(change);
      for (const subscription of subscriptions) subscription.changed(change);
    }
    const took = performance.now() - from;
    const used = process.cpuUsage(usedBefore);
    if (n >= 0) {
      times.push(took);
      cpu += used.user + used.system;
    }
    const now = live.view.get(id);
    if (now === undefined) throw new Error('A device is missing.');
    const start = performance.now();
    for (const [index, one] of all.entries()) {
      const isIn = one.matches(now, Date.now());
      const set = held[index];
      if (set === undefined || isIn === set.has(id)) continue;
      if (isIn) set.add(id);
      else set.delete(id);
    }
    const tookPlain = performance.now() - start;
    if (n >= 0) plain.push(tookPlain);
    // Time for the timers that build and send frames.
    if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  figures[kind] = {
    ...shown(times),
    'cpu µs': Math.round(cpu / CHANGES),
    plainP50: shown(plain).p50,
    plainP99: shown(plain).p99,
  };
}
// Both ways must arrive at the same result, otherwise the figures are meaningless.
for (const [index, subscription] of subscriptions.entries()) {
  if (index % 25 !== 1) continue;
  const shownNow = await shownBy(subscription);
  if (shownNow === held[index]?.size) continue;
  throw new Error(`Filter ${index} shows ${shownNow} devices instead of ${held[index]?.size}.`);
}
const conditionsRead = Object.fromEntries(
  (['status', 'lastSeenAt', 'metrics', 'software', 'groupIds', 'customFields', 'tags'] as const).map(
    (aspect) => [aspect, all.filter(({ reads }) => reads.has(aspect)).length],
  ),
);
console.table(figures);
console.log(
  JSON.stringify({
    devices: DEVICES,
    filters: FILTERS,
    conditionsRead,
    bytesADevice: memory,
    shownByAll: sizes,
    frames,
    figures,
  }),
);
for (const subscription of subscriptions) feed.remove(subscription);
live.close();
feed.close();

async function shownBy(subscription: Subscription): Promise<number> {
  const next = live.pages(subscription);
  for (let shown = 0; ; ) {
    const { devices, isLast } = await next();
    shown += devices.length;
    if (isLast) return shown;
  }
}
