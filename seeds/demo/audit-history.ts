import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import type { AwayDevice } from './away-devices.ts';
import type { SeededPeople, SeededPerson } from './people.ts';
import type { SeededTenants } from './tenants.ts';
import { chance, choose, type DemoTime } from './time.ts';

/**
 * Thirty days of audit entries. They go into the outbox, where the entries of all actions go, and the server seals them
 * into the chains: `muster audit verify` finds nothing wrong with them. Their times and what they tell are made up, and
 * each says so in its details. The routes do not let anyone write entries, or choose a time.
 */

const DAYS = 30;
const AT_ONCE = 1000;
const MADE_UP = 'Made up for the demo.';

interface Entry {
  at: Date;
  actor: SeededPerson;
  action: string;
  resource: { type: string; id?: string; name: string };
  /** Left out for what concerns the provider itself. */
  orgId?: string | undefined;
  details?: Record<string, unknown>;
  failure?: string;
}

/** From documentation ranges (RFC 5737). */
const ADDRESSES = ['203.0.113.14', '203.0.113.14', '203.0.113.87', '198.51.100.9'] as const;
const STRANGER = '198.51.100.23';
const BROWSERS = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15',
] as const;

/** What people do with a device, and how often. */
const ON_DEVICES: readonly [action: string, weight: number, details: Record<string, unknown>][] = [
  ['data.access', 30, { what: 'event log', log: 'System', level: ['error', 'critical'] }],
  ['device.update', 14, {}],
  ['device.command', 9, { type: 'agent.refresh-inventory' }],
  ['device.maintenance', 6, { enabled: true }],
  ['device.upgrade', 3, { component: 'agent' }],
];
const ELSEWHERE: readonly [action: string, type: string, name: string, weight: number][] = [
  ['alert.acknowledge', 'alert', 'A disk is almost full', 10],
  ['alert.resolve', 'alert', 'A device is offline', 8],
  ['script.execute', 'script', 'Free space on the system disk', 6],
  ['filter.update', 'filter', 'Disks that fill up', 2],
  ['group.members.update', 'group', 'Pilot machines', 3],
  ['enrollment_key.create', 'enrollment_key', 'New notebooks', 2],
  ['site.update', 'site', 'Dallas depot', 1],
];

export async function seedAuditHistory(
  tx: Tx,
  story: { tenants: SeededTenants; people: SeededPeople; devices: readonly AwayDevice[]; time: DemoTime },
): Promise<void> {
  const entries = [
    ...Array.from({ length: DAYS }, (_none, day) => dayOf(story, DAYS - day)).flat(),
    ...burstOfSignIns(story),
  ];
  // The sealer keeps the order of the outbox.
  entries.sort((a, b) => a.at.getTime() - b.at.getTime());
  const rows = entries.map((entry) => rowOf(entry, story.tenants.partnerId));
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await tx('audit_outbox').insert(rows.slice(from, from + AT_ONCE));
  }
}

type Story = Parameters<typeof seedAuditHistory>[1];

function dayOf({ people, devices, tenants, time }: Story, daysAgo: number): Entry[] {
  const isWorkingDay = ![0, 6].includes(time.daysAgo(daysAgo).getUTCDay());
  const staff = [people.admin, ...people.technicians, people.dental];
  const entries: Entry[] = [];
  const at = (nth: number) => time.hoursAgo(24 * daysAgo - 9 * chance(daysAgo, nth, 21));
  for (const [who, actor] of staff.entries()) {
    if (!isWorkingDay && who > 0) continue;
    const { orgId, name, id } = actor;
    const about = { type: 'user', id, name };
    const came = at(1000 + who);
    entries.push({
      at: came,
      actor,
      orgId,
      action: 'user.login',
      resource: about,
      details: { method: 'password' },
    });
    const acts = isWorkingDay ? 9 + Math.floor(16 * chance(daysAgo, who, 22)) : 2;
    for (let nth = 0; nth < acts; nth++) {
      const place = who * 100 + nth;
      const own = orgId === undefined ? devices : devices.filter((device) => device.orgId === orgId);
      const device = own[Math.floor(chance(daysAgo, place, 23) * own.length)];
      const when = new Date(came.getTime() + 7_200_000 * chance(daysAgo, place, 24));
      if (device !== undefined && chance(daysAgo, place, 25) < 0.68) {
        const [action, , details] = weighted(ON_DEVICES, ([, weight]) => weight, daysAgo, place, 26);
        const resource = { type: 'device', id: device.id, name: device.hostname };
        entries.push({ at: when, actor, action, resource, orgId: device.orgId, details });
      } else {
        const [action, type, subject] = weighted(ELSEWHERE, ([, , , weight]) => weight, daysAgo, place, 27);
        const customer = orgId ?? choose(tenants.customers, daysAgo, place, 28).id;
        entries.push({ at: when, actor, action, resource: { type, name: subject }, orgId: customer });
      }
    }
  }
  return entries;
}

/** Somebody tried passwords, two nights ago. */
function burstOfSignIns({ people: { dental }, time }: Story): Entry[] {
  const { id, name, orgId } = dental;
  return Array.from({ length: 18 }, (_none, nth) => ({
    at: new Date(time.hoursAgo(46).getTime() + nth * 9000),
    actor: dental,
    orgId,
    action: 'user.login.failed',
    resource: { type: 'user', id, name },
    details: { reason: 'wrong_password' },
    failure: 'The password is wrong.',
  }));
}

function rowOf(
  { at, actor, action, resource, orgId, details, failure }: Entry,
  partnerId: string,
): Record<string, unknown> {
  const nth = at.getTime() % 9973;
  return {
    id: newId(),
    org_id: orgId ?? null,
    partner_id: partnerId,
    timestamp: at,
    actor_type: 'user',
    actor_id: actor.id,
    actor_email: actor.email,
    action,
    resource_type: resource.type,
    resource_id: resource.id ?? null,
    resource_name: resource.name,
    details: JSON.stringify({ ...details, demo: MADE_UP }),
    ip_address: failure === undefined ? choose(ADDRESSES, nth) : STRANGER,
    user_agent: failure === undefined ? choose(BROWSERS, nth) : 'curl/8.5.0',
    result: failure === undefined ? 'success' : 'failure',
    error_message: failure ?? null,
  };
}

function weighted<T>(items: readonly T[], weightOf: (item: T) => number, ...place: number[]): T {
  let at = chance(...place) * items.reduce((sum, item) => sum + weightOf(item), 0);
  const found = items.find((item) => (at -= weightOf(item)) < 0) ?? items.at(-1);
  if (found === undefined) throw new Error('There is nothing to choose from.');
  return found;
}
