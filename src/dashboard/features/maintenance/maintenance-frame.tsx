import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/maintenance', label: 'Windows' },
  { to: '/maintenance/calendar', label: 'Calendar' },
] as const;

/** The pages of maintenance are one area: each has the way to the other. */
export const MaintenanceFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of maintenance" places={PLACES} />
);
