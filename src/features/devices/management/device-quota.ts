import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';

interface QuotaRow {
  cap_of: 'provider' | 'organization';
  cap: number;
  devices: number;
}

/**
 * Throws `limit_reached` where the partner or the organization has as many devices as it may have. The quotas stay locked
 * until the end of the transaction; code that locks devices as well locks them first.
 * @param only  the one quota to check, where the device has counted for the partner already
 */
export async function assertDeviceQuota(tx: Tx, orgId: string, only?: QuotaRow['cap_of']): Promise<void> {
  const { rows } = await tx.raw<{ rows: QuotaRow[] }>('select * from lock_device_caps(?)', [orgId]);
  for (const { cap_of: of, cap, devices } of rows) {
    if ((only ?? of) === of && devices >= cap) {
      throw new AppError('limit_reached', `Device limit of the ${of} reached (${cap}).`, {
        details: { limitOf: of, limit: cap },
      });
    }
  }
}
