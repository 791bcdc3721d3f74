import { z } from 'zod';
import { atMost, cutLine, ReportedInstant, reportedLine, text } from './primitives.ts';

/** The services of a machine, which an agent reports over its connection: all of them at first, then what changes. */

/** The most services of a device; an agent sends the first ones by name. */
export const SERVICES_MAX = 1000;
export const SERVICE_NAME_MAX = 200;

export const ServiceState = z.enum(['running', 'stopped', 'failed', 'starting', 'stopping', 'paused']);
export type ServiceState = z.infer<typeof ServiceState>;

export const StartMode = z.enum(['automatic', 'manual', 'disabled']);
export type StartMode = z.infer<typeof StartMode>;

export const ServiceManager = z.enum(['systemd', 'windows', 'launchd', 'none']);
export type ServiceManager = z.infer<typeof ServiceManager>;

/** A name as it is stored and compared. */
export const ServiceName = cutLine(SERVICE_NAME_MAX).pipe(z.string().min(1));

export const ReportedService = z.object({
  name: ServiceName.describe('As the service manager names it; of systemd without the ending `.service`.'),
  displayName: cutLine(SERVICE_NAME_MAX).optional().catch(undefined),
  state: ServiceState.describe('`failed`: it has ended with an error.'),
  startMode: StartMode.optional()
    .catch(undefined)
    .describe('Whether it starts with the machine, if another program or a person starts it, or never.'),
  since: ReportedInstant.optional()
    .catch(undefined)
    .describe('When the agent saw that the service entered the state; absent if it was in it before.'),
});
export type ReportedService = z.infer<typeof ReportedService>;

export const ServiceReport = z.object({
  manager: ServiceManager.describe('What manages the services of the machine; `none` on one without.'),
  isComplete: z
    .boolean()
    .describe(
      'Whether all services are listed: the hub then forgets the others. Otherwise only what changed is.',
    ),
  services: atMost(SERVICES_MAX, ReportedService.nullable().catch(null)).describe(
    'An entry that is not valid is ignored.',
  ),
  removed: atMost(SERVICES_MAX, ServiceName.nullable().catch(null))
    .optional()
    .describe('The names of services that the machine does not have any more.'),
  total: z
    .number()
    .int()
    .min(0)
    .max(1_000_000)
    .optional()
    .catch(undefined)
    .describe('The number of services of the machine, if it has more than an agent reports.'),
});
export type ServiceReport = z.infer<typeof ServiceReport>;

/** The services of a machine at this moment, and what a person does to one of them. */

export const LiveService = z
  .object({
    // As it is, because it is what an order names.
    name: reportedLine(SERVICE_NAME_MAX),
    displayName: cutLine(SERVICE_NAME_MAX).optional(),
    state: ServiceState.describe('`failed`: it has ended with an error.'),
    startMode: StartMode.optional(),
    isProtected: z
      .boolean()
      .optional()
      .describe('True for the service of the agent, which is neither stopped nor restarted this way.'),
  })
  .meta({ id: 'LiveService' });
export type LiveService = z.infer<typeof LiveService>;

export const LiveServiceSummary = z.object({
  manager: ServiceManager,
  total: z
    .number()
    .int()
    .min(0)
    .max(1_000_000)
    .describe(`How many services the machine has. At most ${SERVICES_MAX} are listed.`),
});
export type LiveServiceSummary = z.infer<typeof LiveServiceSummary>;

export const ServiceAction = z.enum(['start', 'stop', 'restart']);
export type ServiceAction = z.infer<typeof ServiceAction>;

export const ServiceOrder = z.object({
  name: text(SERVICE_NAME_MAX).describe('The exact name of a service that the machine lists.'),
  action: ServiceAction,
});

export const ServiceChange = z.object({
  before: ServiceState,
  after: ServiceState.describe(
    'As the service manager lists it after the action. `starting` or `stopping`: the machine has not finished.',
  ),
});
export type ServiceChange = z.infer<typeof ServiceChange>;
