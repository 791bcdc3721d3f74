import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { followCauses, type NewAlert, type StandingCause, standingCauses } from '../../alerts/index.ts';
import { DESTINATION_FULL } from '../core/alert-kinds.ts';
import {
  daysLeft,
  type DestinationRoom,
  GROWTH_DAYS,
  GROWTH_DAYS_MIN,
  isFullSoon,
} from '../core/destination-room.ts';
import type { QuotaLimits } from '../store/records/quota.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';

interface RoomParts {
  db: Db;
  storage: Pick<ObjectStorage, 'freeBytes'>;
  quota: QuotaLimits;
}

/**
 * Makes the alerts follow about destinations that are full soon: one for each organization about the backup store, whose
 * limits are its quota, that of its partner and the disk, and one for each device about its own destinations.
 */
export async function watchDestinationRoom({ db, storage, quota }: RoomParts): Promise<void> {
  const diskFreeBytes = await storage.freeBytes();
  await withSystem(db, 'find destinations of backups that are full soon', async (tx) => {
    const standing = await standingCauses(tx, DESTINATION_FULL);
    const alerts = [
      ...storeAlerts(await readStoreUsage(tx), { quota, diskFreeBytes }, standing),
      ...deviceAlerts(await readDestinationsOfDevices(tx), standing),
    ];
    await followCauses(tx, { kind: DESTINATION_FULL, alerts, why: 'There is room for more backups again.' });
  });
}

/** What an organization takes in the store, and how that has changed. */
interface StoreUsage {
  orgId: string;
  partnerId: string;
  bytes: number;
  /** `null` where its history is too short. */
  bytesPerDay: number | null;
}

/** The usage of a day is recorded at its end. */
const DAY_ENDS = "(u.day + time '23:55') at time zone 'UTC'";

async function readStoreUsage(tx: Tx): Promise<StoreUsage[]> {
  const { rows } = await tx.raw<{ rows: StoreUsage[] }>(
    `select now.*, (now.bytes - earlier.bytes) / earlier.days as "bytesPerDay"
    from (
      select r.org_id as "orgId", o.partner_id as "partnerId", sum(r.stored_bytes)::float8 as bytes
      from backup_repositories r join organizations o on o.id = r.org_id
      where r.provider = 'server' group by 1, 2) now
    left join lateral (
      select u.bytes::float8 as bytes, extract(epoch from now() - ${DAY_ENDS})::float8 / 86400 as days
      from backup_usage_days u
      where u.org_id = now."orgId" and u.provider = 'server'
        and u.day between (now() at time zone 'UTC')::date - ${GROWTH_DAYS} and (now() at time zone 'UTC')::date - ${GROWTH_DAYS_MIN}
      order by u.day limit 1) earlier on true`,
  );
  return rows;
}

/** A limit of the store. The figures of the last two are of several organizations, so no alert names them. */
type Place = 'organization_quota' | 'partner_quota' | 'store_disk';

const PLACES: Readonly<Record<Place, string>> = {
  organization_quota: 'The quota of this organization in the backup store',
  partner_quota: 'The quota of the partner in the backup store',
  store_disk: 'The disk of the backup store',
};

const Known = z.object({ places: z.array(z.string()) });
const knownPlaces = (standing: StandingCause | undefined) =>
  Known.safeParse(standing?.details).data?.places ?? [];

function storeAlerts(
  usages: readonly StoreUsage[],
  { quota, diskFreeBytes }: { quota: QuotaLimits; diskFreeBytes: number | undefined },
  standing: ReadonlyMap<string, StandingCause>,
): NewAlert[] {
  const { organizationBytes, partnerBytes } = quota;
  const ofPartner = new Map<string, StoreUsage[]>();
  for (const usage of usages) {
    ofPartner.set(usage.partnerId, [...(ofPartner.get(usage.partnerId) ?? []), usage]);
  }
  const partners = new Map(
    [...ofPartner].map(([id, theirs]) => [
      id,
      partnerBytes === undefined ? undefined : withinLimit(theirs, partnerBytes),
    ]),
  );
  const disk = diskFreeBytes === undefined ? undefined : withFree(usages, diskFreeBytes);
  return usages.flatMap((usage) => {
    const { orgId, partnerId } = usage;
    const before = knownPlaces(standing.get(orgId));
    const rooms: [Place, DestinationRoom | undefined][] = [
      [
        'organization_quota',
        organizationBytes === undefined ? undefined : withinLimit([usage], organizationBytes),
      ],
      ['partner_quota', partners.get(partnerId)],
      ['store_disk', disk],
    ];
    const soon = rooms.flatMap(([place, room]) =>
      room !== undefined && isFullSoon(room, before.includes(place)) ? [{ place, room }] : [],
    );
    if (soon.length === 0) return [];
    return [
      {
        orgId,
        kind: DESTINATION_FULL,
        severity: severityOf(soon.map(({ room }) => room)),
        title: 'The backup store is full soon',
        message: [
          ...soon.map(({ place, room }) =>
            sentenceAbout(PLACES[place], room, place === 'organization_quota'),
          ),
          'Keep snapshots for a shorter time, or have the store enlarged. Backups fail when it is full.',
        ].join('\n'),
        details: {
          places: soon.map(({ place }) => place),
          daysLeft: leastDays(soon.map(({ room }) => room)),
        },
      },
    ];
  });
}

const withinLimit = (usages: readonly StoreUsage[], limit: number): DestinationRoom => ({
  ...withFree(usages, limit - sumOf(usages)),
  totalBytes: limit,
});

function withFree(usages: readonly StoreUsage[], freeBytes: number): DestinationRoom {
  const known = usages.flatMap(({ bytesPerDay }) => bytesPerDay ?? []);
  return {
    freeBytes,
    totalBytes: sumOf(usages) + Math.max(0, freeBytes),
    bytesPerDay: known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0),
  };
}

const sumOf = (usages: readonly StoreUsage[]) => usages.reduce((sum, { bytes }) => sum + bytes, 0);

/** The repository of a configuration or of a vault, in a bucket or on a disk of a device. */
interface OwnDestination extends DestinationRoom {
  orgId: string;
  deviceId: string;
  deviceName: string;
  /** Of the configuration or the vault. */
  placeId: string;
  placeName: string;
}

async function readDestinationsOfDevices(tx: Tx): Promise<OwnDestination[]> {
  const { rows } = await tx.raw<{ rows: OwnDestination[] }>(
    `select r.org_id as "orgId", r.device_id as "deviceId", coalesce(c.id, v.id) as "placeId",
      coalesce(c.name, v.name) as "placeName",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      r.destination_free_bytes::float8 as "freeBytes", coalesce(r.destination_total_bytes, 0)::float8 as "totalBytes",
      case when age.days >= ${GROWTH_DAYS_MIN} then (
        select coalesce(sum(s.added_bytes), 0)::float8 from backup_snapshots s where s.repository_id = source.id
          and s.received_at > greatest(age.first_at, now() - interval '${GROWTH_DAYS} days'))
        / least(age.days, ${GROWTH_DAYS}) end as "bytesPerDay"
    from backup_repositories r
    left join backup_configs c on c.id = r.config_id
    left join backup_vaults v on v.repository_id = r.id
    -- A vault grows by what is backed up: what a copy of a snapshot adds is not known.
    cross join lateral (select coalesce(v.source_repository_id, r.id) as id) source
    join devices d on d.id = r.device_id and d.condition <> 'decommissioned'
    cross join lateral (
      select min(s.received_at) as first_at, extract(epoch from now() - min(s.received_at))::float8 / 86400 as days
      from backup_snapshots s where s.repository_id = source.id) age
    where r.destination_free_bytes is not null and coalesce(c.id, v.id) is not null
    order by r.device_id, 4, 3`,
  );
  return rows;
}

function deviceAlerts(
  destinations: readonly OwnDestination[],
  standing: ReadonlyMap<string, StandingCause>,
): NewAlert[] {
  const soon = new Map<string, OwnDestination[]>();
  for (const each of destinations) {
    const before = knownPlaces(standing.get(each.deviceId));
    if (!isFullSoon(each, before.includes(each.placeId))) continue;
    soon.set(each.deviceId, [...(soon.get(each.deviceId) ?? []), each]);
  }
  return [...soon].map(([deviceId, theirs]) => ({
    orgId: theirs[0]?.orgId ?? '',
    deviceId,
    kind: DESTINATION_FULL,
    severity: severityOf(theirs),
    title: `${theirs[0]?.deviceName ?? ''}: the destination of its backups is full soon`,
    message: [
      ...theirs.map((each) => sentenceAbout(`${each.placeName}: the destination`, each, true)),
      'Make room there, or choose another destination. Backups fail when it is full.',
    ].join('\n'),
    details: { places: theirs.map(({ placeId }) => placeId), daysLeft: leastDays(theirs) },
  }));
}

const CRITICAL_DAYS = 3;

const severityOf = (rooms: readonly DestinationRoom[]) =>
  (leastDays(rooms) ?? Infinity) <= CRITICAL_DAYS ? 'critical' : 'high';

function leastDays(rooms: readonly DestinationRoom[]): number | null {
  const days = rooms.flatMap((room) => daysLeft(room) ?? []);
  return days.length === 0 ? null : Math.floor(Math.min(...days));
}

const GIB = 2 ** 30;

function sentenceAbout(what: string, room: DestinationRoom, withFigures: boolean): string {
  if (room.freeBytes <= 0) return `${what} is full.`;
  const days = daysLeft(room);
  const until = days === null ? 'is nearly full' : `is full in about ${inDays(Math.ceil(days))}`;
  const free = withFigures ? `: ${(room.freeBytes / GIB).toFixed(1)} GiB are free` : '';
  return `${what} ${until}${free}.`;
}

const inDays = (days: number) => (days === 1 ? 'one day' : `${days} days`);
