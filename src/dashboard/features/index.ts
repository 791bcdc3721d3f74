import { agentPages } from './agents/index.ts';
import { alertRulePages } from './alert-rules/index.ts';
import { alertPages } from './alerts/index.ts';
import { backupPages } from './backup/index.ts';
import { cloudBackupPages } from './cloud-backup/index.ts';
import { auditPages } from './audit/index.ts';
import { devicePages } from './devices/index.ts';
import { enrollmentPages } from './enrollment/index.ts';
import { eventLogPages } from './event-logs/index.ts';
import { filterPages } from './filters/index.ts';
import { groupPages } from './groups/index.ts';
import { maintenancePages } from './maintenance/index.ts';
import { notificationPages } from './notifications/index.ts';
import { organizationPages } from './organizations/index.ts';
import { peoplePages } from './people/index.ts';
import { profilePages } from './profile/index.ts';
import { overviewPages } from './overview/index.ts';
import { providerPages } from './providers/index.ts';
import { recoveryPages } from './recovery/index.ts';
import { reportPages } from './reports/index.ts';
import { settingsPages } from './settings/index.ts';
import { scriptPages } from './scripts/index.ts';
import { signInPages } from './sign-in/index.ts';
import { softwarePages } from './software/index.ts';
import { systemHealthPages } from './system-health/index.ts';

/** Every page of the dashboard: the public ones, and those inside the frame. */
export const publicPages = [...signInPages] as const;

export const signedInPages = [
  ...overviewPages,
  ...devicePages,
  ...eventLogPages,
  ...groupPages,
  ...filterPages,
  ...softwarePages,
  ...scriptPages,
  ...alertPages,
  ...alertRulePages,
  ...maintenancePages,
  ...notificationPages,
  ...backupPages,
  ...cloudBackupPages,
  ...recoveryPages,
  ...agentPages,
  ...enrollmentPages,
  ...providerPages,
  ...organizationPages,
  ...peoplePages,
  ...profilePages,
  ...reportPages,
  ...auditPages,
  ...settingsPages,
  ...systemHealthPages,
] as const;
