import { useMe, refusalOf } from '../../session.ts';
import { AreaPage, type PageProps } from '../../ui/index.ts';

const REPORT = { to: '/reports', label: 'Report' } as const;
const SCHEDULES = { to: '/reports/schedules', label: 'Sent by mail' } as const;

/** The pages of reports are one area: each has the way to the other, if the person may see it. */
export function ReportsFrame(page: PageProps) {
  const seesSchedules = refusalOf(useMe(), 'organizations:read') === undefined;
  return (
    <AreaPage {...page} label="Pages of reports" places={seesSchedules ? [REPORT, SCHEDULES] : [REPORT]} />
  );
}
