import { Link } from '@tanstack/react-router';
import type { DeviceSummary } from '../../../protocol/index.ts';
import type { DataColumn } from '../../ui/data-table.tsx';
import {
  DeviceStatusText,
  formatPercent,
  formatWord,
  maintenanceText,
  SYSTEM_NAMES,
  When,
} from '../../ui/index.ts';
import { DayChart } from './day-chart.tsx';
import styles from './device-columns.module.css';

interface Names {
  organization: (id: string) => string;
  site: (id: string) => string;
}

export const nameOf = (device: DeviceSummary): string => device.displayName ?? device.hostname;

/**
 * Every column that the table of devices can show. The cells are plain elements: a person who scrolls makes hundreds of
 * them a second.
 */
export const deviceColumns = (names: Names): DataColumn<DeviceSummary>[] => [
  {
    id: 'name',
    header: 'Name',
    width: 200,
    value: nameOf,
    cell: (device) => (
      <Link className={styles['name']} tabIndex={-1} to="/devices/$deviceId" params={{ deviceId: device.id }}>
        {nameOf(device)}
      </Link>
    ),
  },
  {
    id: 'status',
    header: 'Status',
    width: 130,
    least: 126,
    value: (device) => device.status,
    cell: (device) => (
      <DeviceStatusText status={device.status} presence={device.presence} maintenance={device.maintenance} />
    ),
  },
  {
    id: 'maintenance',
    header: 'Maintenance',
    width: 230,
    value: ({ maintenance }) => maintenance?.until,
    cell: ({ maintenance }) =>
      maintenance === null ? null : <span title={maintenance.name}>{maintenanceText(maintenance)}</span>,
  },
  {
    id: 'hostname',
    header: 'Host name',
    width: 160,
    value: ({ hostname }) => hostname,
    cell: ({ hostname }) => hostname,
  },
  {
    id: 'organization',
    header: 'Organization',
    width: 170,
    value: ({ orgId }) => names.organization(orgId),
    cell: ({ orgId }) => names.organization(orgId),
  },
  {
    id: 'site',
    header: 'Site',
    width: 150,
    value: ({ siteId }) => names.site(siteId),
    cell: ({ siteId }) => names.site(siteId),
  },
  {
    id: 'os',
    header: 'System',
    width: 100,
    value: ({ osType }) => osType,
    cell: ({ osType }) => SYSTEM_NAMES[osType],
  },
  {
    id: 'agent',
    header: 'Agent',
    width: 90,
    value: ({ agentVersion }) => agentVersion,
    cell: ({ agentVersion }) => agentVersion,
  },
  meter('cpu', 'CPU', (device) => device.metrics?.cpuPercent),
  meter('ram', 'Memory', (device) => device.metrics?.ramPercent),
  meter('disk', 'Disk', (device) => device.metrics?.diskPercent),
  day('cpuDay', 'CPU, 24 h', 'cpuPercent'),
  day('ramDay', 'Memory, 24 h', 'ramPercent'),
  day('diskDay', 'Disk, 24 h', 'diskPercent'),
  {
    id: 'lastSeen',
    header: 'Last seen',
    width: 120,
    least: 108,
    value: ({ lastSeenAt }) => lastSeenAt,
    cell: ({ lastSeenAt }) => <When at={lastSeenAt} />,
  },
  {
    id: 'since',
    header: 'In this state for',
    width: 130,
    value: ({ presence }) => presence.since,
    cell: ({ presence }) => <When at={presence.since} />,
  },
  {
    id: 'reason',
    header: 'Reason',
    width: 160,
    value: ({ presence }) => presence.reason,
    cell: ({ presence }) => formatWord(presence.reason),
  },
];

export const DEFAULT_COLUMNS: readonly string[] = [
  'name',
  'status',
  'organization',
  'site',
  'os',
  'agent',
  'cpu',
  'ram',
  'disk',
  'lastSeen',
];

const day = (
  id: string,
  header: string,
  metric: 'cpuPercent' | 'ramPercent' | 'diskPercent',
): DataColumn<DeviceSummary> => ({
  id,
  header,
  width: 120,
  cell: (device) => <DayChart key={device.id} deviceId={device.id} metric={metric} />,
});

/** Above this share, a number is bold: not everybody sees a colour. */
const HIGH_PERCENT = 90;

function meter(
  id: string,
  header: string,
  percentOf: (device: DeviceSummary) => number | undefined,
): DataColumn<DeviceSummary> {
  return {
    id,
    header,
    width: 92,
    align: 'right',
    value: percentOf,
    cell: (device) => {
      const percent = percentOf(device);
      if (percent === undefined) return <span className={styles['old']}>–</span>;
      if (device.status === 'offline') {
        return (
          <span className={styles['old']} title="As it was when the device was last connected.">
            {formatPercent(percent)}
          </span>
        );
      }
      if (percent < HIGH_PERCENT) return formatPercent(percent);
      return <span className={styles['high']}>{formatPercent(percent)}</span>;
    },
  };
}
