import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import type { DemoTime } from './time.ts';

/** One provider, its customers, and their sites in five time zones. */

export const DEMO_PARTNER_SLUG = 'muster-demo';

/** `code` and `places` name the machines of a site; `share` is its part of the fleet. */
export const CUSTOMERS = [
  {
    name: 'Bright Smile Dental',
    slug: 'bright-smile-dental',
    // Upgrades at night only.
    agentUpdates: {
      policy: 'auto',
      maintenanceWindow: {
        days: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'],
        start: '01:00',
        end: '04:00',
      },
    },
    sites: [
      {
        name: 'Lisbon practice',
        timezone: 'Europe/Lisbon',
        code: 'LIS',
        share: 20,
        places: ['FRONT', 'ROOM', 'XRAY', 'LAB'],
      },
      {
        name: 'Porto practice',
        timezone: 'Europe/Lisbon',
        code: 'OPO',
        share: 10,
        places: ['FRONT', 'ROOM', 'XRAY'],
      },
    ],
  },
  {
    name: 'Northway Logistics',
    slug: 'northway-logistics',
    agentUpdates: { policy: 'staged' },
    sites: [
      {
        name: 'Chicago depot',
        timezone: 'America/Chicago',
        code: 'CHI',
        share: 30,
        places: ['DOCK', 'GATE', 'DESK', 'KIOSK'],
      },
      {
        name: 'Dallas depot',
        timezone: 'America/Chicago',
        code: 'DAL',
        share: 20,
        places: ['DOCK', 'GATE', 'DESK'],
      },
      {
        name: 'Rotterdam office',
        timezone: 'Europe/Amsterdam',
        code: 'RTM',
        share: 10,
        places: ['DESK', 'MEETING'],
      },
    ],
  },
  {
    name: 'Harbour Street School',
    slug: 'harbour-street-school',
    agentUpdates: { policy: 'staged' },
    sites: [
      {
        name: 'Main building',
        timezone: 'Australia/Sydney',
        code: 'MAIN',
        share: 25,
        places: ['CLASS', 'OFFICE', 'LIBRARY'],
      },
      {
        name: 'Science block',
        timezone: 'Australia/Sydney',
        code: 'SCI',
        share: 15,
        places: ['LAB', 'CLASS'],
      },
    ],
  },
  {
    name: 'Alder & Finch Law',
    slug: 'alder-finch-law',
    agentUpdates: { policy: 'manual' },
    sites: [
      {
        name: 'London office',
        timezone: 'Europe/London',
        code: 'LON',
        share: 15,
        places: ['DESK', 'MEETING', 'ARCHIVE'],
      },
      { name: 'Leeds office', timezone: 'Europe/London', code: 'LDS', share: 5, places: ['DESK', 'MEETING'] },
    ],
  },
] as const;

export type DemoSite = (typeof CUSTOMERS)[number]['sites'][number];

export interface SeededSite extends Pick<DemoSite, 'name' | 'code' | 'places' | 'share'> {
  id: string;
}

export interface SeededCustomer {
  id: string;
  name: string;
  slug: (typeof CUSTOMERS)[number]['slug'];
  sites: SeededSite[];
}

export interface SeededTenants {
  partnerId: string;
  customers: SeededCustomer[];
}

export async function seedTenants(tx: Tx, time: DemoTime): Promise<SeededTenants> {
  const partnerId = newId();
  await tx('partners').insert({
    id: partnerId,
    name: 'Muster Demo Services',
    slug: DEMO_PARTNER_SLUG,
    status: 'active',
    plan: 'pro',
    created_at: time.daysAgo(420),
  });
  const customers: SeededCustomer[] = [];
  for (const [index, { sites, agentUpdates, name, slug }] of CUSTOMERS.entries()) {
    const id = newId();
    const created = { created_at: time.daysAgo(400 - 90 * index) };
    await tx('organizations').insert({
      id,
      partner_id: partnerId,
      name,
      slug,
      settings: JSON.stringify({ agentUpdates }),
      ...created,
    });
    // The past of the demo has figures of each minute for two days only (src/features/metrics/metric-import.ts).
    await tx('metric_retention').insert({ org_id: id, minute_days: 2, quarter_days: 90, hour_days: 730 });
    // Notebooks are switched off for a week end; a week is news.
    await tx('alert_rules')
      .where({ org_id: id, condition_kind: 'offline' })
      .update({ condition: JSON.stringify({ kind: 'offline', forMinutes: OFFLINE_AFTER_DAYS * 24 * 60 }) });
    await tx('alert_rules')
      .where({ org_id: id, alert_kind: 'disk_full' })
      .update({
        condition: tx.raw(
          `condition || jsonb_build_object('threshold', ?::integer, 'clearThreshold', ?::integer)`,
          [FULL_PERCENT, FULL_PERCENT - 5],
        ),
      });
    const seeded = sites.map((site) => ({ id: newId(), ...site }));
    await tx('sites').insert(
      seeded.map((site) => ({
        id: site.id,
        org_id: id,
        name: site.name,
        timezone: site.timezone,
        ...created,
      })),
    );
    customers.push({ id, name, slug, sites: seeded });
  }
  return { partnerId, customers };
}

/** How full a disk may be. */
const FULL_PERCENT = 90;

/** From when on an absence is an alert, in the organizations of the demo. */
export const OFFLINE_AFTER_DAYS = 7;
