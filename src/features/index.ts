import type { BackgroundPart } from '../platform/close-stack.ts';
import type { RouteGroup } from '../platform/http/route.ts';
import {
  assertRegisteredPins,
  feature as agentUpgrades,
  isRolledOut,
  upgradeTimeline,
} from './agent-upgrades/index.ts';
import { feature as agents } from './agents/index.ts';
import { alertRulesUseFilters, feature as alertRules } from './alert-rules/index.ts';
import { alertSearch, alertTimeline, feature as alerts } from './alerts/index.ts';
import { feature as apiKeys } from './api-keys/index.ts';
import { changeTimeline, feature as audit } from './audit/index.ts';
import { feature as auth } from './auth/index.ts';
import { backupConfigsUseFilters, backupTimeline, feature as backup } from './backup/index.ts';
import { feature as backupStore } from './backup-store/index.ts';
import { CLOUD_READINESS, feature as cloudBackup } from './cloud-backup/index.ts';
import { commandTimeline, feature as commands } from './commands/index.ts';
import { feature as customFields } from './custom-fields/index.ts';
import { feature as databaseBackup } from './database-backup/index.ts';
import { feature as deviceServices } from './device-services/index.ts';
import { feature as deviceTimeline, noteTimeline } from './device-timeline/index.ts';
import { deviceSearch, feature as devices } from './devices/index.ts';
import { feature as enrollment } from './enrollment/index.ts';
import { feature as eventLogQuestions } from './event-log-questions/index.ts';
import { feature as filters, filterSearch } from './filters/index.ts';
import { feature as fleetTrends } from './fleet-trends/index.ts';
import { feature as groups, groupSearch, groupsUseFilters, groupTimeline } from './groups/index.ts';
import { feature as inventory, softwareTimeline } from './inventory/index.ts';
import { feature as logRetention } from './log-retention/index.ts';
import { feature as logs } from './logs/index.ts';
import { feature as machineRecovery } from './machine-recovery/index.ts';
import { feature as maintenanceWindows, maintenanceWindowsUseFilters } from './maintenance-windows/index.ts';
import { feature as metrics, presenceTimeline } from './metrics/index.ts';
import { feature as notifications } from './notifications/index.ts';
import { feature as organizations, organizationSearch } from './organizations/index.ts';
import { feature as partners } from './partners/index.ts';
import { feature as recovery } from './disaster-recovery/index.ts';
import { feature as registration } from './registration/index.ts';
import { feature as releases } from './releases/index.ts';
import { feature as reports } from './reports/index.ts';
import { feature as roles } from './roles/index.ts';
import { feature as savedViews } from './saved-views/index.ts';
import { feature as scriptRuns } from './script-runs/index.ts';
import { feature as scriptSchedules, scriptSchedulesUseFilters } from './script-schedules/index.ts';
import { feature as scripts, scriptSearch } from './scripts/index.ts';
import { feature as search } from './search/index.ts';
import { feature as service } from './service.ts';
import { feature as sites, siteSearch } from './sites/index.ts';
import { feature as sso } from './sso/index.ts';
import { feature as systemTools } from './system-tools/index.ts';
import { feature as terminals, terminalTimeline } from './terminals/index.ts';
import { feature as users, userSearch } from './users/index.ts';
import { feature as webhooks } from './webhooks/index.ts';
import { feature as work } from './work/index.ts';

/** Every feature, in the order in which the API reference shows their routes: the whole product at a glance. */
export const FEATURES = [
  auth,
  sso,
  registration,
  apiKeys,
  users,
  roles,
  partners,
  organizations,
  sites,
  enrollment,
  agents,
  releases,
  agentUpgrades,
  devices,
  customFields,
  inventory,
  deviceServices,
  deviceTimeline,
  groups,
  filters,
  scripts,
  scriptRuns,
  scriptSchedules,
  savedViews,
  search,
  commands,
  terminals,
  work,
  logs,
  eventLogQuestions,
  systemTools,
  metrics,
  alerts,
  alertRules,
  maintenanceWindows,
  backupStore,
  // Before `backup`, whose `/backup/restore/:id` would match `/backup/restore/vm`.
  machineRecovery,
  backup,
  databaseBackup,
  cloudBackup,
  webhooks,
  notifications,
  recovery,
  logRetention,
  audit,
  reports,
  fleetTrends,
  service,
] as const;

type AnyFeature = (typeof FEATURES)[number];
/** The parts that the routes of all features need together. */
type AllRouteParts = AnyFeature['routes'] extends (parts: infer All) => unknown ? All : never;
/** The contributions of features to each other when importing each other's doors would make a cycle. */
const CONTRIBUTIONS = {
  filterReferrers: [
    groupsUseFilters,
    backupConfigsUseFilters,
    maintenanceWindowsUseFilters,
    alertRulesUseFilters,
    scriptSchedulesUseFilters,
  ],
  searchSources: [
    deviceSearch,
    userSearch,
    organizationSearch,
    siteSearch,
    groupSearch,
    filterSearch,
    scriptSearch,
    alertSearch,
  ],
  timelineSources: [
    presenceTimeline,
    alertTimeline,
    commandTimeline,
    ...backupTimeline,
    upgradeTimeline,
    softwareTimeline,
    terminalTimeline,
    groupTimeline,
    changeTimeline,
    noteTimeline,
  ],
  cloudReadiness: CLOUD_READINESS,
  checkPins: assertRegisteredPins,
  isRolledOut,
};
/** The parts that the routes of all features need from outside. */
export type RouteParts = Omit<AllRouteParts, keyof typeof CONTRIBUTIONS>;
/** The parts that their workers need. */
export type WorkerParts = AnyFeature['workers'] extends (parts: infer All) => unknown ? All : never;

/** The parts that their background jobs need. */
export type JobParts = AnyFeature['jobs'] extends (parts: infer All) => unknown ? All : never;

export function routeTable(parts: RouteParts): RouteGroup[] {
  return tableOf({ ...parts, ...CONTRIBUTIONS });
}

function tableOf(parts: AllRouteParts): RouteGroup[] {
  return FEATURES.flatMap((feature) => feature.routes(parts));
}

/** By the names under which they are closed. */
export function createWorkers(parts: WorkerParts): [string, BackgroundPart][] {
  return FEATURES.flatMap((feature) => Object.entries<BackgroundPart>(feature.workers(parts)));
}

export function addJobs(parts: JobParts): void {
  for (const feature of FEATURES) feature.jobs(parts);
}

/** The table for documents and contract tests, which read its rows and call none of its handlers. */
export function routesAsData(): RouteGroup[] {
  return tableOf(absentParts<AllRouteParts>());
}

/** Parts that can be named and handed on, and that fail when they are called. */
function absentParts<Parts extends object>(): Parts {
  const absent: unknown = new Proxy(() => {}, {
    get: () => absent,
    apply() {
      throw new Error('The route table was built as data; its handlers cannot be called.');
    },
  });
  // The one cast of the table as data: no value of these types exists when no server runs.
  return absent as Parts;
}
