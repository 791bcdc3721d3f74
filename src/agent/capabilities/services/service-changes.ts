import {
  type ReportedService,
  SERVICE_NAME_MAX,
  SERVICES_MAX,
  type ServiceManager,
  type ServiceReport,
} from '../../../protocol/index.ts';
import { printable } from '../../core/plain-text.ts';
import type { Service, ServiceList } from './service-reader.ts';

/** What is reported of the services that were read. Pure. */

interface SeenService {
  service: Service;
  /** When it was seen to enter its state, by the monotonic clock; undefined if it was in it at the first reading. */
  since: number | undefined;
}

/** The services of a machine, as the agent has seen them. */
export interface SeenServices {
  manager: ServiceManager;
  /** By name, at most `SERVICES_MAX`. */
  services: ReadonlyMap<string, SeenService>;
  /** The number of all services. */
  total: number;
}

/**
 * @param before  what was seen before; undefined for the first reading
 * @param restarted  the names of services that have been restarted meanwhile, whatever their state
 */
export function seen(
  before: SeenServices | undefined,
  list: ServiceList,
  at: number,
  restarted: ReadonlySet<string> = NONE,
): SeenServices {
  const all = new Map(list.services.map(withinLimits).map((service) => [service.name, service]));
  all.delete('');
  const kept = [...all.values()].sort(byName).slice(0, SERVICES_MAX);
  return {
    manager: list.manager,
    total: all.size,
    services: new Map(
      kept.map((service) => {
        const known = before?.services.get(service.name);
        const isSame =
          !restarted.has(service.name) && (before === undefined || known?.service.state === service.state);
        return [service.name, { service, since: isSame ? known?.since : at }];
      }),
    ),
  };
}

const NONE: ReadonlySet<string> = new Set();

const byName = (a: Service, b: Service) => (a.name < b.name ? -1 : 1);

function withinLimits({ name, displayName, ...service }: Service): Service {
  const shown = displayName === undefined ? '' : printable(displayName, SERVICE_NAME_MAX).trim();
  return {
    name: printable(name, SERVICE_NAME_MAX).trim(),
    ...(shown === '' ? {} : { displayName: shown }),
    ...service,
  };
}

/** A message of so many bytes is well below the limit of the hub. */
const BYTES_MAX = 800_000;

/**
 * What the server has to be told.
 * @param known  what the server has acknowledged; undefined if it has to be told everything
 * @param timeOf  the time of a monotonic one, in ISO 8601
 * @returns undefined if there is nothing to tell
 */
export function reportOf(
  known: SeenServices | undefined,
  now: SeenServices,
  timeOf: (at: number) => string,
): ServiceReport | undefined {
  const isComplete = known === undefined || known.manager !== now.manager;
  const told = isComplete ? undefined : known.services;
  const changed = [...now.services.values()].filter((one) => !isSame(told?.get(one.service.name), one));
  const removed = [...(told?.keys() ?? [])].filter((name) => !now.services.has(name));
  if (!isComplete && changed.length + removed.length === 0 && known.total === now.total) return undefined;
  const services = changed.map(
    ({ service, since }): ReportedService => ({
      ...service,
      ...(since === undefined ? {} : { since: timeOf(since) }),
    }),
  );
  return {
    manager: now.manager,
    isComplete,
    // Without the names for people, the longest list fits.
    services:
      Buffer.byteLength(JSON.stringify(services)) <= BYTES_MAX ? services : services.map(withoutDisplayName),
    ...(removed.length === 0 ? {} : { removed }),
    ...(now.total > now.services.size ? { total: now.total } : {}),
  };
}

function withoutDisplayName(service: ReportedService): ReportedService {
  const { displayName: _displayName, ...rest } = service;
  return rest;
}

const isSame = (one: SeenService | undefined, other: SeenService): boolean =>
  one !== undefined &&
  one.since === other.since &&
  one.service.state === other.service.state &&
  one.service.displayName === other.service.displayName &&
  one.service.startMode === other.service.startMode;
