import { clock, HOUR_MS, MINUTE_MS } from '../../../clock.ts';
import type { Sources } from '../../os/machine-sources.ts';
import { LINUX_SERVICES } from './linux.ts';
import { MACOS_SERVICES } from './macos.ts';
import type { Service, ServiceDetails, ServiceList, ServiceReader } from './service-reader.ts';
import { WINDOWS_SERVICES } from './windows.ts';

const READERS: Readonly<Record<Sources['os'], ServiceReader>> = {
  linux: LINUX_SERVICES,
  macos: MACOS_SERVICES,
  windows: WINDOWS_SERVICES,
};

const DETAILS_EVERY_MS = 6 * HOUR_MS;
/** Details are read earlier for a service that is new, but not for each of many that come and go. */
const DETAILS_AT_MOST_EVERY_MS = 10 * MINUTE_MS;

/** Reads the services of a machine: their states each time, and what seldom changes every few hours. */
export class MachineServices {
  readonly #sources: Sources;
  readonly #reader: ServiceReader;
  #details: ServiceDetails = new Map();
  /** The services that were there when the details were read. */
  #detailed: ReadonlySet<string> = new Set();
  #detailsAt = Number.NEGATIVE_INFINITY;

  constructor(sources: Sources, reader: ServiceReader = READERS[sources.os]) {
    this.#sources = sources;
    this.#reader = reader;
  }

  /** Throws if the services cannot be read, which must not look like a machine without services. */
  async read(): Promise<ServiceList> {
    const { manager } = this.#reader;
    const services = await this.#reader.states(this.#sources);
    if (services === undefined) return { manager: 'none', services: [] };
    // No system that runs has none, so the output was not understood.
    if (services.length === 0) throw new Error('The service manager listed no services.');
    await this.#refreshDetails(services);
    return {
      manager,
      services: services.map((service) => ({ ...service, ...this.#details.get(service.name) })),
    };
  }

  async #refreshDetails(services: readonly Service[]): Promise<void> {
    const age = clock.monotonic() - this.#detailsAt;
    const isDue =
      age >= DETAILS_EVERY_MS ||
      (age >= DETAILS_AT_MOST_EVERY_MS && services.some(({ name }) => !this.#detailed.has(name)));
    if (!isDue || this.#reader.details === undefined) return;
    this.#detailsAt = clock.monotonic();
    this.#detailed = new Set(services.map(({ name }) => name));
    // States are reported all the same, with the details that are known.
    this.#details = await this.#reader.details(this.#sources).catch(() => this.#details);
  }
}
