import type { Logger } from '../../platform/logger.ts';
import type { DeviceServiceReport, DeviceServices } from '../ports.ts';
import { AcknowledgedWriter } from './acknowledged-writer.ts';

const NONE_STORED: ReadonlySet<string> = new Set();

/** Writes what devices report about their services. Without a store, agents keep their reports. */
export const createServiceWriter = ({
  store,
  ...parts
}: {
  store: DeviceServices | undefined;
  log: Logger;
  onRefused: (count: number) => void;
}): AcknowledgedWriter<DeviceServiceReport, ReadonlySet<string>> =>
  new AcknowledgedWriter({
    ...parts,
    what: 'services',
    write: async (reports) => (await store?.record(reports)) ?? NONE_STORED,
    isStored: ({ deviceId }, stored) => stored.has(deviceId),
    batchMs: 1000,
    // A complete report has hundreds of services, and a statement should not hold its locks for long.
    batch: 50,
    sizeOf: ({ report }) => 1 + report.services.length + (report.removed?.length ?? 0),
    // Agents wait ten seconds for the acknowledgement, in which so many new services are written. Others come later.
    waitingMax: 60_000,
    // An agent reports changes once a minute.
    budget: { requests: 40, windowMs: 600_000 },
  });
