import type { DeviceHub, LogReads } from '../hub/index.ts';
import type { AuditTrail } from '../platform/http/audit.ts';
import type { RouteGroup } from '../platform/http/route.ts';
import type { Mailer } from '../platform/mail/mailer.ts';
import { agentRoutes } from './agents/index.ts';
import { alertRoutes } from './alerts/index.ts';
import { apiKeyRoutes } from './api-keys/index.ts';
import { auditRoutes, RepeatedReads, type RetentionMeans } from './audit/index.ts';
import {
  authRoutes,
  type AuthService,
  mfaRoutes,
  type SecondFactor,
  type SignInLimits,
  type SignInTrail,
} from './auth/index.ts';
import { addCommands, commandRoutes } from './commands/index.ts';
import { customFieldRoutes } from './custom-fields/index.ts';
import { deviceRoutes, type TellAutoUpdate } from './devices/index.ts';
import { diagnosticLogRoutes } from './diagnostic-logs/index.ts';
import { type EnrollLimits, enrollmentRoutes } from './enrollment/index.ts';
import { liveLogRoutes, liveLogs, storedLogRoutes } from './event-logs/index.ts';
import { filterRoutes } from './filters/index.ts';
import { groupRoutes } from './groups/index.ts';
import { inventoryRoutes } from './inventory/index.ts';
import { logRetentionRoutes } from './log-retention/index.ts';
import { organizationRoutes } from './organizations/index.ts';
import { partnerRoutes } from './partners/index.ts';
import { registrationRoutes, type Registration } from './registration/index.ts';
import { roleRoutes } from './roles/index.ts';
import { scriptRoutes } from './scripts/index.ts';
import { searchRoutes } from './search/index.ts';
import { siteRoutes } from './sites/index.ts';
import { type AccountEnding, type InvitationLimits, userRoutes } from './users/index.ts';

export interface FeatureParts extends RetentionMeans {
  auth: AuthService;
  limits: SignInLimits;
  enrollLimits: EnrollLimits;
  invitationLimits: InvitationLimits;
  registration: Registration;
  secondFactor: SecondFactor;
  ending: AccountEnding;
  hub: DeviceHub;
  audit: AuditTrail;
  logReads: LogReads;
  trail: SignInTrail;
  mailer: Mailer;
  /** Where people reach this server, without a slash at the end: for links in mails. */
  baseUrl: () => string;
  heartbeatSeconds: number;
  secureCookies: boolean;
  /** Whether proxies are configured, without which no address can be relied on. */
  clientAddressIsKnown: boolean;
  /** Called when tokens of devices are revoked or replaced. */
  forgetTokens: (deviceIds: readonly string[]) => void;
}

/** The whole API at a glance. */
export function routeTable(parts: FeatureParts): RouteGroup[] {
  const { hub } = parts;
  const reads = new RepeatedReads();
  return [
    authRoutes(parts),
    mfaRoutes(parts),
    registrationRoutes(parts),
    apiKeyRoutes,
    userRoutes(parts),
    roleRoutes,
    partnerRoutes(parts),
    organizationRoutes,
    siteRoutes,
    enrollmentRoutes(parts),
    agentRoutes(parts),
    deviceRoutes({ ...parts, tellAutoUpdate: tellAutoUpdate(hub) }),
    customFieldRoutes({ hub }),
    inventoryRoutes({ hub }),
    groupRoutes({ hub }),
    filterRoutes({ hub }),
    scriptRoutes({ hub }),
    searchRoutes,
    commandRoutes({ hub }),
    liveLogRoutes({ logs: liveLogs({ hub, reads: parts.logReads }) }),
    storedLogRoutes({ reads }),
    diagnosticLogRoutes({ reads }),
    alertRoutes,
    logRetentionRoutes,
    auditRoutes(parts),
  ];
}

/** As long as a command may wait: an agent that was away for long comes back and is told. */
const TELL_FOR_SECONDS = 30 * 24 * 3600;

const tellAutoUpdate =
  (hub: DeviceHub): TellAutoUpdate =>
  (ctx, devices, enabled) =>
    addCommands(
      ctx,
      devices,
      { type: 'agent.set-auto-update', payload: { enabled }, ttlSeconds: TELL_FOR_SECONDS },
      hub,
    );

/** The table as data, for documents and contract tests: what its handlers work with is not there. */
export function routesAsData(): RouteGroup[] {
  return routeTable({
    auth: {},
    limits: {},
    enrollLimits: {},
    invitationLimits: {},
    registration: {},
    secondFactor: {},
    ending: {},
    hub: {},
    audit: {},
    logReads: {},
    trail: {},
    mailer: {},
    baseUrl: () => '',
    heartbeatSeconds: 60,
    secureCookies: false,
    prunesAudit: false,
    archivesAudit: false,
    forgetTokens() {},
  } as never);
}
