import type { DeviceServiceReport } from '../../hub/ports.ts';
import type { ReportedService, ServiceManager } from '../../protocol/index.ts';

/** What the reports of one device say together. */
export interface DeviceChanges {
  deviceId: string;
  manager: ServiceManager;
  isComplete: boolean;
  /** Undefined if all services are listed. */
  total: number | undefined;
  /** Each name once. */
  services: readonly ReportedService[];
  /** None of the listed ones. */
  removed: readonly string[];
}

/** Merges the reports of each device, which are in the order of their arrival: what came later counts. Pure. */
export function mergeReports(reports: readonly DeviceServiceReport[]): DeviceChanges[] {
  const merged = new Map<string, { last: DeviceServiceReport; isComplete: boolean; known: Known }>();
  for (const one of reports) {
    const { deviceId, report } = one;
    const before = report.isComplete ? undefined : merged.get(deviceId);
    const known: Known = before?.known ?? new Map();
    for (const name of report.removed ?? []) if (name !== null) known.set(name, undefined);
    for (const service of report.services) if (service !== null) known.set(service.name, service);
    merged.set(deviceId, {
      last: one,
      isComplete: report.isComplete || (before?.isComplete ?? false),
      known,
    });
  }
  return [...merged.values()].map(({ last: { deviceId, report }, isComplete, known }) => ({
    deviceId,
    manager: report.manager,
    isComplete,
    total: report.total,
    services: [...known.values()].filter((service) => service !== undefined),
    removed: [...known].flatMap(([name, service]) => (service === undefined ? [name] : [])),
  }));
}

/** By name: the service, or undefined if it was removed. */
type Known = Map<string, ReportedService | undefined>;
