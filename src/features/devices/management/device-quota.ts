import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';

interface CapRow {
  cap_of: 'provider' | 'organization';
  cap: number;
  devices: number;
}

/**
 * Caps of partner and organization, before a device comes into service. They are locked until the end of the
 * transaction: whoever has locked devices as well, has done so before.
 * @param only  where the device has counted for the partner already
 */
export async function assertRoomForDevice(tx: Tx, orgId: string, only?: CapRow['cap_of']): Promise<void> {
  const { rows } = await tx.raw<{ rows: CapRow[] }>('select * from lock_device_caps(?)', [orgId]);
  for (const { cap_of: of, cap, devices } of rows) {
    if ((only ?? of) === of && devices >= cap) {
      throw new AppError('limit_reached', `Device limit of the ${of} reached (${cap}).`, {
        details: { limitOf: of, limit: cap },
      });
    }
  }
}
