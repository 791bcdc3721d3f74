export { devicePages } from './devices.pages.ts';
export { useRecentDevices } from './recent-devices.ts';
