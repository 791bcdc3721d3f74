import type { LinkProps } from '@tanstack/react-router';
import {
  IconApps,
  IconBell,
  IconBellRinging,
  IconBriefcase,
  IconBuilding,
  IconCloud,
  IconDatabase,
  IconDevices,
  IconHeartbeat,
  IconLifebuoy,
  IconHistory,
  IconFilter,
  IconFolders,
  IconGauge,
  IconLayoutDashboard,
  IconListSearch,
  IconPlugConnected,
  IconRefresh,
  IconReportAnalytics,
  IconScript,
  IconUsers,
  IconSettings,
  IconTool,
  type Icon,
} from '@tabler/icons-react';
import type { Requirement } from '../session.ts';

/** The rail on the left, and the pages that the palette offers. */
export interface NavigationEntry {
  label: string;
  to: NonNullable<LinkProps['to']>;
  icon: Icon;
  requires?: Requirement;
}

export const NAVIGATION: readonly NavigationEntry[] = [
  { label: 'Overview', to: '/', icon: IconLayoutDashboard },
  { label: 'Devices', to: '/devices', icon: IconDevices, requires: 'devices:read' },
  { label: 'Groups', to: '/groups', icon: IconFolders, requires: 'devices:read' },
  { label: 'Filters', to: '/filters', icon: IconFilter, requires: 'filters:read' },
  { label: 'Event logs', to: '/event-logs', icon: IconListSearch, requires: 'devices:read' },
  { label: 'Software', to: '/software', icon: IconApps, requires: 'devices:read' },
  { label: 'Capacity', to: '/capacity', icon: IconGauge, requires: 'devices:read' },
  { label: 'Scripts', to: '/scripts', icon: IconScript, requires: 'scripts:read' },
  { label: 'Alerts', to: '/alerts', icon: IconBell, requires: 'alerts:read' },
  { label: 'Maintenance', to: '/maintenance', icon: IconTool, requires: 'devices:read' },
  { label: 'Notifications', to: '/notifications', icon: IconBellRinging, requires: 'alerts:read' },
  { label: 'Backup', to: '/backup', icon: IconDatabase, requires: 'backup:read' },
  { label: 'Cloud backup', to: '/cloud-backup', icon: IconCloud, requires: 'backup:read' },
  { label: 'Recovery', to: '/recovery', icon: IconLifebuoy, requires: 'recovery:read' },
  { label: 'Agents', to: '/agents', icon: IconRefresh },
  { label: 'Enrollment', to: '/enrollment', icon: IconPlugConnected, requires: 'agents:read' },
  { label: 'Providers', to: '/providers', icon: IconBriefcase, requires: { scopes: ['system'] } },
  { label: 'Organizations', to: '/organizations', icon: IconBuilding, requires: 'organizations:read' },
  { label: 'People', to: '/people', icon: IconUsers, requires: 'users:read' },
  { label: 'Reports', to: '/reports', icon: IconReportAnalytics, requires: 'devices:read' },
  { label: 'Audit', to: '/audit', icon: IconHistory, requires: 'audit:read' },
  { label: 'Settings', to: '/settings', icon: IconSettings },
  { label: 'System health', to: '/system', icon: IconHeartbeat },
];

/** Opens the palette. Its code is loaded after the page; a request before that opens it once it is loaded. */
let isWanted = false;
let open = (): void => {
  isWanted = true;
};

export const openPalette = (): void => open();

export function paletteOpensWith(opener: () => void): void {
  open = opener;
  if (isWanted) opener();
}
