import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import type { AwayDevice } from './away-devices.ts';
import type { SeededPeople } from './people.ts';
import { OFFLINE_AFTER_DAYS } from './tenants.ts';
import { chance, choose, type DemoTime } from './time.ts';

/**
 * Alerts of the last month, in the form in which the server raises them. Those of devices that are still away stand as
 * the server would have them: it ends them when the device is back, and raises none a second time.
 */

const OFFLINE = 'device_offline';
const DISK = 'disk_full';
const PAST = 34;

const NOTES = [
  'The owner is on leave until Monday.',
  'A replacement is on its way.',
  'Known: the branch is being rebuilt.',
] as const;
const ENDS = [
  { resolution: 'The device is connected again.' },
  { note: 'Cleared the cache of the update service.' },
  { resolution: 'The disk is 71 % full.' },
] as const;

export async function seedAlertHistory(
  tx: Tx,
  { devices, people, time }: { devices: readonly AwayDevice[]; people: SeededPeople; time: DemoTime },
): Promise<void> {
  const unseen = devices.filter(({ since }) => since < time.daysAgo(OFFLINE_AFTER_DAYS));
  const [technician] = people.technicians;
  const by = technician?.id ?? people.admin.id;
  const standing = unseen.map((device, nth) => standingAlert(device, nth, by));
  const past = Array.from({ length: PAST }, (_none, nth) => {
    const device = devices[Math.floor(chance(nth, 31) * devices.length)];
    return device === undefined ? [] : [pastAlert(device, nth, { by, time })];
  }).flat();
  await tx('alerts').insert([...standing, ...past]);
  await tx.raw(
    `update alerts set rule_id = r.id from alert_rules r where r.org_id = alerts.org_id and r.alert_kind = alerts.kind`,
  );
}

/** Some of them somebody has seen. */
function standingAlert(device: AwayDevice, nth: number, by: string): Record<string, unknown> {
  const raised = new Date(device.since.getTime() + OFFLINE_AFTER_DAYS * 86_400_000);
  const isSeen = nth % 3 === 0;
  return {
    ...offline(device),
    status: isSeen ? 'acknowledged' : 'active',
    cause_lasts: true,
    ...times(raised),
    acknowledged_at: isSeen ? new Date(raised.getTime() + 5_400_000) : null,
    acknowledged_by: isSeen ? by : null,
    note: isSeen ? choose(NOTES, nth, 32) : null,
    resolved_at: null,
    resolved_by: null,
    resolution: null,
  };
}

function pastAlert(
  device: AwayDevice,
  nth: number,
  { by, time }: { by: string; time: DemoTime },
): Record<string, unknown> {
  const raised = time.hoursAgo(30 + 660 * chance(nth, 33));
  const resolved = new Date(raised.getTime() + 3_600_000 * (0.5 + 20 * chance(nth, 34)));
  const end = ENDS[nth % ENDS.length];
  const isByPerson = end !== undefined && 'note' in end;
  return {
    ...(nth % ENDS.length === 0 ? offline(device) : fullDisk(device, nth)),
    status: 'resolved',
    cause_lasts: false,
    ...times(raised),
    acknowledged_at: isByPerson ? raised : null,
    acknowledged_by: isByPerson ? by : null,
    note: isByPerson ? end.note : null,
    resolved_at: resolved,
    resolved_by: isByPerson ? by : null,
    resolution: end !== undefined && 'resolution' in end ? end.resolution : null,
  };
}

const times = (raised: Date) => ({
  raised_at: raised,
  last_at: raised,
  created_at: raised,
  updated_at: raised,
});

const about = ({ id, orgId }: AwayDevice) => ({
  id: newId(),
  org_id: orgId,
  device_id: id,
  severity: 'high',
});

function offline(device: AwayDevice) {
  const { hostname, since } = device;
  const minute = since.toISOString().slice(0, 16).replace('T', ' ');
  return {
    ...about(device),
    kind: OFFLINE,
    title: `${hostname} is offline`,
    message: `${hostname} has not been connected since ${minute} UTC, which is more than ${OFFLINE_AFTER_DAYS} days.`,
    details: JSON.stringify({
      since: since.toISOString(),
      lastSeenAt: since.toISOString(),
      thresholdMinutes: OFFLINE_AFTER_DAYS * 24 * 60,
    }),
  };
}

function fullDisk(device: AwayDevice, nth: number) {
  const percent = 91 + Math.floor(8 * chance(nth, 35));
  return {
    ...about(device),
    kind: DISK,
    title: `Disk of ${device.hostname} is almost full`,
    message: `The disk of ${device.hostname} is ${percent} % full; the threshold is 90 %.`,
    details: JSON.stringify({ diskPercent: percent, thresholdPercent: 90 }),
  };
}
