/** The tabs of the page of a device, as they are named in its address. */
export const DEVICE_TABS = [
  'summary',
  'history',
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
] as const;

/** The dialogs of the actions on a device, as they are named in its address. */
export const DEVICE_DIALOGS = [
  'rename',
  'tags',
  'move',
  'maintenance',
  'reboot',
  'decommission',
  'restore',
] as const;
export type DeviceDialog = (typeof DEVICE_DIALOGS)[number];

export type DeviceTab = (typeof DEVICE_TABS)[number];
