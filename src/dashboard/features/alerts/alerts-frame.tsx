import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/alerts', label: 'Alerts' },
  { to: '/alerts/rules', label: 'Rules' },
] as const;

/** The pages of alerts are one area: each has the way to the other. */
export const AlertsFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of alerts" places={PLACES} />
);
