/** The tabs of the page of a device, as they are named in its address. */
export const DEVICE_TABS = [
  'summary',
  'metrics',
  'software',
  'services',
  'processes',
  'agent-logs',
  'commands',
  'terminal',
  'alerts',
  'backup',
  'upgrades',
  'audit',
] as const;
export type DeviceTab = (typeof DEVICE_TABS)[number];
