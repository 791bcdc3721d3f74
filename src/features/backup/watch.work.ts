import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { followCauses, type NewAlert, standingCauses, type StandingCause } from '../alerts/index.ts';
import {
  addUsageOfDay,
  type DestinationSpace,
  type OwnDestination,
  readDestinationsOfDevices,
  readStoreUsage,
  type StoreUsage,
} from './alerts.queries.ts';
import {
  anomalyAlert,
  BROKEN_CHAIN,
  chainAlert,
  EMPTY,
  emptyAlert,
  FAILED,
  failedAlert,
  followBreaches,
  MISSED,
  missedAlert,
  SIZE_DROP,
  VAULT_BEHIND,
  vaultAlerts,
  VERIFICATION_FAILED,
  verificationAlert,
  watchStalled,
  DESTINATION_FULL,
} from './alerts.ts';
import { readDeviceFacts, storeReadiness } from './overview.service.ts';
import type { ObjectStorage, QuotaLimits } from '../backup-store/index.ts';

const Nothing = z.object({});
const WATCH = defineJob({ name: 'backup.watch', input: Nothing, attempts: 1, inCluster: 1 });
const STALLED_WORK = defineJob({ name: 'backup.watch-stalled', input: Nothing, attempts: 1, inCluster: 1 });
const DESTINATION_ROOM = defineJob({
  name: 'backup.watch-destination-room',
  input: Nothing,
  attempts: 1,
  inCluster: 1,
});
const USAGE = defineJob({ name: 'backup.usage', input: Nothing, inCluster: 1 });

export function addWatchJobs(jobs: Jobs, parts: Parameters<typeof watchDestinationSpace>[0]): void {
  const { db } = parts;
  jobs.handle(WATCH, ({ signal }) => watchBackups(db, signal));
  jobs.handle(STALLED_WORK, () => watchStalled(db));
  jobs.handle(DESTINATION_ROOM, () => watchDestinationSpace(parts));
  jobs.handle(USAGE, () => recordUsage(db));
  jobs.schedule(WATCH, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(STALLED_WORK, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(DESTINATION_ROOM, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(USAGE, { cron: '55 23 * * *', timeZone: 'UTC' }, {});
}

const AT_ONCE = 500;
const NONE = '00000000-0000-0000-0000-000000000000';

/** Computes how every device is protected, and makes the alerts follow. */
export async function watchBackups(db: Db, signal: AbortSignal): Promise<void> {
  const open = await withSystem(db, 'read which size drops are known', (tx) => standingCauses(tx, SIZE_DROP));
  const wanted: Record<string, NewAlert[]> = {
    [FAILED]: [],
    [EMPTY]: [],
    [MISSED]: [],
    [SIZE_DROP]: [],
    [VERIFICATION_FAILED]: [],
    [BROKEN_CHAIN]: [],
  };
  for (let after = NONE; !signal.aborted; ) {
    const now = clock.date();
    const page = await withSystem(db, 'compute how devices are protected', async (tx) => {
      const facts = await readDeviceFacts(tx, { after, limit: AT_ONCE });
      await storeReadiness(tx, facts);
      return facts;
    });
    for (const facts of page) {
      const found = [
        failedAlert(facts),
        emptyAlert(facts),
        missedAlert(facts, now),
        anomalyAlert(facts, open.get(facts.deviceId)),
        verificationAlert(facts),
        chainAlert(facts),
      ];
      for (const alert of found) if (alert !== undefined) wanted[alert.kind]?.push(alert);
    }
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.deviceId ?? after;
  }
  // Half a round says nothing about the devices that it did not reach.
  if (signal.aborted) return;
  await withSystem(db, 'make the alerts about backups follow', async (tx) => {
    for (const [kind, alerts] of Object.entries(wanted)) {
      await followCauses(tx, { kind, alerts, why: ENDED[kind] ?? 'The cause has ended.' });
    }
  });
  await withSystem(db, 'make the alerts about vaults follow', async (tx) => {
    await followCauses(tx, {
      kind: VAULT_BEHIND,
      alerts: await vaultAlerts(tx),
      why: 'The vaults of the device have what they should have again.',
    });
  });
  await followBreaches(
    db,
    (wanted[MISSED] ?? []).flatMap(({ deviceId }) => deviceId ?? []),
  );
}

const ENDED: Readonly<Record<string, string>> = {
  [FAILED]: 'The backups of the device have succeeded again.',
  [EMPTY]: 'The newest backups have files again.',
  [MISSED]: 'A backup has arrived, or none is expected any more.',
  [SIZE_DROP]: 'The backup has its former size again, or a user has accepted the change.',
  [VERIFICATION_FAILED]: 'A verification has passed.',
  [BROKEN_CHAIN]: 'The newest backups of the databases can be restored again.',
};

/**
 * Records the bytes that every organization has stored at the end of the day. A repetition replaces the earlier record.
 */
export const recordUsage = (db: Db): Promise<void> =>
  withSystem(db, 'record what backups take', addUsageOfDay);

/** How soon a place in which backups are stored is full. */

/** An alert that stands ends at the second values, so that it does not come and go with each backup. */
const SOON = { days: 14, freeShare: 0.05 };
const SOON_STILL = { days: 21, freeShare: 0.08 };

/**
 * Whether a place is full soon:
 *
 *     days left = free bytes / bytes added a day
 *     full soon = days left ≤ 14, or free bytes ≤ 5 % of all
 *
 * If it was found to be so before, it lasts while the days left are at most 21, or at most 8 % are free.
 */
function isFullSoon(room: DestinationSpace, wasBefore: boolean): boolean {
  const { days, freeShare } = wasBefore ? SOON_STILL : SOON;
  const left = daysLeft(room);
  return room.freeBytes <= room.totalBytes * freeShare || (left !== null && left <= days);
}

/** `null` if what is added is not known, or nothing is. */
function daysLeft({ freeBytes, bytesPerDay }: DestinationSpace): number | null {
  if (freeBytes <= 0) return 0;
  return bytesPerDay === null || bytesPerDay <= 0 ? null : freeBytes / bytesPerDay;
}

interface RoomParts {
  db: Db;
  storage: Pick<ObjectStorage, 'freeBytes'>;
  quota: QuotaLimits;
}

/**
 * Makes the alerts follow about destinations that are full soon: one for each organization about the backup store, whose
 * limits are its quota, that of its partner and the disk, and one for each device about its own destinations.
 */
export async function watchDestinationSpace({ db, storage, quota }: RoomParts): Promise<void> {
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
    const rooms: [Place, DestinationSpace | undefined][] = [
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

const withinLimit = (usages: readonly StoreUsage[], limit: number): DestinationSpace => ({
  ...withFree(usages, limit - sumOf(usages)),
  totalBytes: limit,
});

function withFree(usages: readonly StoreUsage[], freeBytes: number): DestinationSpace {
  const known = usages.flatMap(({ bytesPerDay }) => bytesPerDay ?? []);
  return {
    freeBytes,
    totalBytes: sumOf(usages) + Math.max(0, freeBytes),
    bytesPerDay: known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0),
  };
}

const sumOf = (usages: readonly StoreUsage[]) => usages.reduce((sum, { bytes }) => sum + bytes, 0);

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

const severityOf = (rooms: readonly DestinationSpace[]) =>
  (leastDays(rooms) ?? Infinity) <= CRITICAL_DAYS ? 'critical' : 'high';

function leastDays(rooms: readonly DestinationSpace[]): number | null {
  const days = rooms.flatMap((room) => daysLeft(room) ?? []);
  return days.length === 0 ? null : Math.floor(Math.min(...days));
}

const GIB = 2 ** 30;

function sentenceAbout(what: string, room: DestinationSpace, withFigures: boolean): string {
  if (room.freeBytes <= 0) return `${what} is full.`;
  const days = daysLeft(room);
  const until = days === null ? 'is nearly full' : `is full in about ${inDays(Math.ceil(days))}`;
  const free = withFigures ? `: ${(room.freeBytes / GIB).toFixed(1)} GiB are free` : '';
  return `${what} ${until}${free}.`;
}

const inDays = (days: number) => (days === 1 ? 'one day' : `${days} days`);
