import { AreaPage, type PageProps } from '../../ui/index.ts';

const PLACES = [
  { to: '/audit', label: 'Entries' },
  { to: '/audit/reports', label: 'Reports' },
  { to: '/audit/chain', label: 'Chain and keys' },
] as const;

/** The pages of the audit trail are one area: each has the way to the others. */
export const AuditFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of the audit trail" places={PLACES} />
);
