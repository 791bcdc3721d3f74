import type { Device } from '../../../api/index.ts';
import type { LogSearch } from '../model/log-search.ts';
import type { useLogMemory } from '../query-bar/saved-views.ts';

/** What both kinds of logs of a device are given. */
export interface DeviceLogsProps {
  device: Device;
  search: LogSearch;
  change: (change: Partial<LogSearch>, isStep?: boolean) => void;
  memory: ReturnType<typeof useLogMemory>;
  deviceZone: string | undefined;
}

export const nameOfDevice = (device: Device): string => device.displayName ?? device.hostname;
