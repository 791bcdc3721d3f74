import { type WrittenFacts, writeChangedFacts } from './machine-identity.queries.ts';
import type { DeviceFacts, Claimant, IdentityConflict } from '../../hub/ports.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import { firmwareValue, tellingSerial } from '../../protocol/index.ts';
import { type NewAlert, raiseAlert, raiseAlerts, resolveAlerts } from '../alerts/index.ts';

/** Writes what agents report about their machines, and notices another name or another machine. */

interface Parts {
  audit: AuditTrail;
  log: Logger;
}

export interface Renamed {
  deviceId: string;
  orgId: string;
  partnerId: string;
  before: string;
  after: string;
  ip: string | null;
}

export async function writeMachineFacts(
  tx: Tx,
  facts: readonly DeviceFacts[],
  parts: Parts,
): Promise<{ changed: string[]; postponed: string[]; isAudited: boolean }> {
  const rows = await writeChangedFacts(tx, facts.map(columnsOf));
  const renamed = rows.filter((row) => row.hostname !== row.old_hostname);
  await noteRenames(
    tx,
    renamed.map((row) => ({
      deviceId: row.id,
      orgId: row.org_id,
      partnerId: row.partner_id,
      before: row.old_hostname,
      after: row.hostname,
      ip: row.last_ip,
    })),
    parts,
  );
  await raiseSerialConflicts(tx, rows.flatMap(changedSerialOf));
  return {
    changed: rows.map(({ id }) => id),
    postponed: rows.filter((row) => row.hostname !== row.reported).map(({ id }) => id),
    isAudited: renamed.length > 0,
  };
}

/** A value that was not reported, or is a placeholder, changes nothing. */
function columnsOf({ hostname, serialNumber, macAddresses, ...facts }: DeviceFacts): object {
  const serial = firmwareValue(serialNumber);
  return {
    ...facts,
    ...(hostname === undefined || hostname === '' ? {} : { hostname }),
    hardware: serial === undefined ? {} : { serialNumber: serial },
    network: macAddresses === undefined || macAddresses.length === 0 ? {} : { macAddresses },
  };
}

const changedSerialOf = (row: WrittenFacts): ChangedSerial[] =>
  isOtherMachine(row.old_serial, row.serial)
    ? [
        {
          orgId: row.org_id,
          deviceId: row.id,
          hostname: row.hostname,
          before: row.old_serial ?? '',
          after: row.serial ?? '',
        },
      ]
    : [];

/** Whether two serial numbers are of two machines. One that says nothing is of any machine. */
export function isOtherMachine(before: string | null | undefined, after: string | null | undefined): boolean {
  const [known, now] = [tellingSerial(before), tellingSerial(after)];
  return known !== undefined && now !== undefined && known !== now;
}

/** Audits changed host names, in the transaction that writes them. The display name, which people have chosen, stays. */
export async function noteRenames(tx: Tx, renamed: readonly Renamed[], { audit, log }: Parts): Promise<void> {
  if (renamed.length === 0) return;
  await audit.recordAll(
    tx,
    renamed.map(({ deviceId, orgId, partnerId, before, after, ip }) => ({
      action: 'device.renamed',
      resourceType: 'device',
      resourceId: deviceId,
      resourceName: after,
      details: { before: { hostname: before }, after: { hostname: after } },
      actor: { kind: 'agent', deviceId, orgId, partnerId },
      state: { client: { ip, userAgent: null }, log },
    })),
  );
}

/** The alerts about machines whose identity is in doubt. Each names both sides. */

const KIND = 'machine_identity_conflict';

/** The known facts about one side. */
export interface Side {
  deviceId: string;
  hostname: string;
  serialNumber?: string | undefined;
  macAddresses?: readonly string[] | undefined;
  ip?: string | null | undefined;
}

const alert = (about: Omit<NewAlert, 'kind' | 'severity'>): NewAlert => ({
  kind: KIND,
  severity: 'high',
  ...about,
});

/**
 * The machine as a person recognizes it: by its name, and by an id that distinguishes it from another one of that name.
 */
function describe({
  hostname,
  serialNumber,
  ip,
}: Pick<Side, 'serialNumber' | 'ip'> & { hostname?: string | undefined }) {
  const more = [
    ...(serialNumber === undefined ? [] : [`serial number ${serialNumber}`]),
    ...(ip == null ? [] : [`address ${ip}`]),
  ];
  return `${hostname ?? 'a machine without a name'}${more.length === 0 ? '' : ` (${more.join(', ')})`}`;
}

/** A machine was enrolled with the machine id of a connected device, and waits for approval. */
export async function raiseEnrollmentConflict(
  tx: Tx,
  { orgId, newcomer, known }: { orgId: string; newcomer: Side; known: Side },
): Promise<void> {
  await raiseAlert(
    tx,
    alert({
      orgId,
      deviceId: newcomer.deviceId,
      title: `${newcomer.hostname} claims the identity of ${known.hostname}`,
      message: `${describe(newcomer)} was enrolled with the machine id of ${describe(known)}, which is connected. It is given nothing until a technician approves it as a device of its own, approves it in place of ${known.hostname}, or removes it.`,
      details: { cause: 'enrollment', device: newcomer, conflictsWith: known },
    }),
  );
}

/** Two programs use the token of one device at the same time. */
export async function raiseConnectionConflict(tx: Tx, conflict: IdentityConflict): Promise<void> {
  const { deviceId, orgId, holder, other } = conflict;
  const device = await tx('devices')
    .where({ id: deviceId, org_id: orgId })
    .first<{ hostname: string } | undefined>('hostname');
  if (device === undefined) return;
  const { hostname } = device;
  const shown = ({ bootId: _bootId, ...side }: Claimant) => ({ deviceId, hostname, ...side });
  await raiseAlert(
    tx,
    alert({
      orgId,
      deviceId,
      title: `Two machines use the identity of ${hostname}`,
      message: `${describe(shown(holder))} is connected, and ${describe(shown(other))} connects with the same token. The second one is refused while the first one is connected. One of them is probably a copy, such as a clone of a virtual machine: enroll it as a device of its own.`,
      details: { cause: 'connection', holder: shown(holder), refused: shown(other) },
    }),
  );
}

interface ChangedSerial {
  orgId: string;
  deviceId: string;
  hostname: string;
  before: string;
  after: string;
}

/** Devices report another serial number than before: another machine, or another mainboard. */
export async function raiseSerialConflicts(tx: Tx, changed: readonly ChangedSerial[]): Promise<void> {
  if (changed.length === 0) return;
  await raiseAlerts(
    tx,
    changed.map(({ orgId, deviceId, hostname, before, after }) =>
      alert({
        orgId,
        deviceId,
        title: `${hostname} has another serial number`,
        message: `${hostname} had the serial number ${before} and now reports ${after}. Either its mainboard was replaced, or another machine uses its identity, such as a copy of its disk.`,
        details: {
          cause: 'serial_number',
          device: { deviceId, hostname, serialNumber: after },
          conflictsWith: { deviceId, hostname, serialNumber: before },
        },
      }),
    ),
  );
}

/** Ends the alerts about devices that a person has decided about. */
export async function resolveConflicts(tx: Tx, deviceIds: readonly string[], why: string): Promise<void> {
  await resolveAlerts(tx, { kind: KIND, deviceIds, details: {}, why });
}
