import type { ReportedService, ServiceManager, StartMode } from '../../../protocol/index.ts';
import type { Sources } from '../../os/machine-sources.ts';

/** A service at one moment. */
export type Service = Omit<ReportedService, 'since'>;

/** What seldom changes and costs more to read. */
export type ServiceDetails = ReadonlyMap<string, { displayName?: string; startMode?: StartMode }>;

/** How the services of one system are read. */
export interface ServiceReader {
  manager: ServiceManager;
  /** Must be cheap. `undefined` on a machine without this service manager. */
  states(sources: Sources): Promise<Service[] | undefined>;
  details?(sources: Sources): Promise<ServiceDetails>;
}

/** The services of a machine at one moment. */
export interface ServiceList {
  manager: ServiceManager;
  services: readonly Service[];
}
