import type { Claimant } from '../../hub/ports.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { PublicContext } from '../../platform/context.ts';
import { lockByName, type Tx } from '../../platform/db/transaction.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { DeviceModel, deviceOfToken } from '../devices/index.ts';
import type { Candidate } from './place.ts';

/** The devices that a machine may be by its machine id or its token, and which of them are held by a living program. */

/** More machines than an organization has under one machine id. */
const CANDIDATES_MAX = 20;

export interface KnownDevice extends Candidate {
  device: DeviceModel;
  holder: Claimant | undefined;
}

/** Devices that are held at this moment, each with its holder. One that only reports over HTTP is not connected. */
export type Held = ReadonlyMap<string, Claimant>;

/** Asks before the key is locked, because a program that does not answer takes a few seconds. */
export async function findHeld(
  ctx: PublicContext,
  { enrollmentKey, machineId }: { enrollmentKey: string; machineId: string },
  hub: Pick<DeviceHub, 'provenHolder'>,
): Promise<Held> {
  const devices = await ctx.withSystem('find the devices that a machine may be', async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string }[] }>(
      `select d.id from enrollment_keys k join devices d on d.org_id = k.org_id
      where k.key_hash = ? and (d.machine_id = ? or d.claimed_machine_id = ?) and d.condition <> 'decommissioned'
      order by d.id limit ${CANDIDATES_MAX}`,
      [tokenHash(enrollmentKey), machineId, machineId],
    );
    return rows;
  });
  const held = await Promise.all(
    devices.map(async ({ id }) => {
      const holder = await hub.provenHolder(id);
      return holder === undefined ? [] : [[id, holder] as const];
    }),
  );
  return new Map(held.flat());
}

/**
 * Reads and locks the candidates. Machines with one id enroll one after another. A machine without an id, as a container
 * is, can only be the device whose token it sends.
 */
export async function lockCandidates(
  tx: Tx,
  {
    orgId,
    machineId,
    bearer,
    held,
  }: { orgId: string; machineId: string | undefined; bearer: string | undefined; held: Held },
): Promise<KnownDevice[]> {
  if (machineId !== undefined) await lockByName(tx, `machine ${orgId} ${machineId}`);
  const proven = bearer === undefined ? undefined : await deviceOfToken(tx, bearer);
  if (machineId === undefined && proven === undefined) return [];
  const devices = await DeviceModel.query(tx)
    .where('org_id', orgId)
    .where((either) => {
      if (machineId === undefined) void either.where('id', proven ?? null);
      else {
        void either
          .where('machine_id', machineId)
          .orWhere(
            (claim) =>
              void claim.where('claimed_machine_id', machineId).whereNot('condition', 'decommissioned'),
          );
      }
    })
    .orderBy('id')
    .limit(CANDIDATES_MAX)
    .forUpdate();
  return devices.map((device) => ({
    device,
    id: device.id,
    ownsId: machineId !== undefined && device.machineId === machineId,
    isPending: device.condition === 'pending',
    serialNumber: device.hardware.serialNumber,
    isHeld: held.has(device.id),
    holder: held.get(device.id),
    isProven: device.id === proven,
  }));
}
