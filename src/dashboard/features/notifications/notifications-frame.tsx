import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/notifications', label: 'Policies' },
  { to: '/notifications/channels', label: 'Channels' },
  { to: '/notifications/log', label: 'Log' },
] as const;

/** The pages of notifications are one area: each has the way to the others. */
export const NotificationsFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of notifications" places={PLACES} />
);
