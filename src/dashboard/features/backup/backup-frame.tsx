import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/backup', label: 'Overview' },
  { to: '/backup/jobs', label: 'Jobs' },
  { to: '/backup/snapshots', label: 'Snapshots' },
  { to: '/backup/databases', label: 'Databases' },
  { to: '/backup/machines', label: 'Machines' },
  { to: '/backup/restores', label: 'Restores' },
  { to: '/backup/instant-boots', label: 'Instant boots' },
  { to: '/backup/bare-metal', label: 'Bare metal' },
  { to: '/backup/configurations', label: 'Configurations' },
  { to: '/backup/verifications', label: 'Verifications' },
  { to: '/backup/slas', label: 'SLAs' },
  { to: '/backup/keys', label: 'Encryption keys' },
] as const;

/** The pages of backup are one area: each has the way to the others. */
export const BackupFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of backup" places={PLACES} />
);
