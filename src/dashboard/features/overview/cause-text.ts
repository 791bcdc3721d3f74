import type { AlertCause } from '../../api/routes.ts';
import { alertKindText, counted } from '../alert-words/index.ts';

/** What a cause of alerts is called. Pure. */

interface Place {
  /** The name of the organization. */
  organization: string;
  /** The name of the site, if all devices are at one. */
  site: string | undefined;
}

/** "Device offline: 14 devices of Porto practice"; for one alert its own title */
export function causeText(
  { kind, title, count, deviceCount }: AlertCause,
  { site, organization }: Place,
): string {
  if (count === 1 && title !== null) return title;
  const of = site ?? organization;
  const what = deviceCount === 0 ? counted(count, 'alert') : counted(deviceCount, 'device');
  return `${alertKindText(kind)}: ${what} of ${of}`;
}

/** Below it: "Porto, FRONT-1, FRONT-2, FRONT-3 and 11 more", without what the text above has said. */
export function causeDetail(
  { count, devices, deviceCount }: AlertCause,
  { site, organization }: Place,
): string {
  const more = deviceCount - devices.length;
  const names = devices.map(({ name }) => name).join(', ');
  const shown = more > 0 ? `${names} and ${more.toLocaleString()} more` : names;
  const isNamed = count > 1 && site === undefined;
  return [isNamed ? '' : organization, shown].filter((part) => part !== '').join(' · ');
}

export type NextStep = 'device' | 'devices' | 'capacity' | 'backup' | 'alerts';

/** Where a person goes on from there. */
export function nextStep({ kind, deviceCount }: Pick<AlertCause, 'kind' | 'deviceCount'>): NextStep {
  if (deviceCount === 1) return 'device';
  if (kind === 'device_offline') return 'devices';
  if (kind === 'disk_full' || kind === 'disk_space_low') return 'capacity';
  return kind.startsWith('backup_') ? 'backup' : 'alerts';
}
