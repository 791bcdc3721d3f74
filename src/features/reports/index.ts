import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { reportRoutes } from './report.routes.ts';
import { reportScheduleRoutes } from './report-schedule.routes.ts';
import { SCHEDULES_MAX } from './report-schedule.service.ts';
import { addReportMails, ReportRounds } from './report-schedule.work.ts';

export const feature = defineFeature({
  name: 'reports',
  routes: () => [reportRoutes, reportScheduleRoutes],
  workers: (parts: ConstructorParameters<typeof ReportRounds>[0]) => ({
    'reports that are due': new ReportRounds(parts),
  }),
  jobs: (parts: Parameters<typeof addReportMails>[0]) => addReportMails(parts),
  tables: [bounded('report_schedules', `an organization or partner has at most ${SCHEDULES_MAX}`)],
});
