import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/scripts', label: 'Scripts', below: '/scripts/new' },
  { to: '/scripts/runs', label: 'Runs', below: '/scripts/runs/' },
  { to: '/scripts/schedules', label: 'Schedules' },
] as const;

/** The pages of scripts are one area: each has the way to the others. */
export const ScriptsFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of scripts" places={PLACES} />
);
