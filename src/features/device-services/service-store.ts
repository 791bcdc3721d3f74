import type { DeviceServices } from '../../hub/ports.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystemStatement } from '../../platform/db/transaction.ts';
import { serviceValues, WRITE_SERVICES } from './device-service.queries.ts';
import { mergeReports } from './merge-reports.ts';

/** Stores the services of devices as they are reported. */
export const createServiceStore = (db: Db): DeviceServices => ({
  async record(reports) {
    const rows = await withSystemStatement<{ deviceId: string }>(
      db,
      'store the services of many devices',
      { ...WRITE_SERVICES, values: serviceValues(mergeReports(reports)) },
      () => true,
    );
    return new Set(rows?.map(({ deviceId }) => deviceId));
  },
});
