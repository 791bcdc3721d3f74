import os from 'node:os';
import { clock } from '../../../clock.ts';
import type { MachineIdentity } from '../../../protocol/index.ts';
import { collectFacts } from './collect.ts';
import type { Sources } from './sources.ts';

/** How long a connection waits for the serial number, which some systems take many seconds to say. */
const PATIENCE_MS = 1000;

/** What the agent says with each connection about the machine that it runs on. */
export class OwnIdentity {
  readonly #sources: Sources;
  readonly #hostname: () => string;
  #serial: Promise<string | undefined> | undefined;

  /** @param hostname  the name that the machine goes by */
  constructor(sources: Sources, hostname: () => string = os.hostname) {
    this.#sources = sources;
    this.#hostname = hostname;
  }

  /** The serial number is read once: it changes with the mainboard only. A later connection sends it where it was late. */
  async read(): Promise<MachineIdentity> {
    this.#serial ??= collectFacts(this.#sources).then(
      ({ hardware }) => hardware.serialNumber,
      () => undefined,
    );
    const serialNumber = await Promise.race([this.#serial, clock.sleep(PATIENCE_MS).then(() => undefined)]);
    return {
      hostname: this.#hostname(),
      macAddresses: this.#macAddresses(),
      ...(serialNumber === undefined ? {} : { serialNumber }),
    };
  }

  #macAddresses(): string[] {
    try {
      const all = Object.values(this.#sources.interfaces()).flat();
      return all.flatMap((one) => (one === undefined || one.internal ? [] : one.mac));
    } catch {
      // Some containers forbid it.
      return [];
    }
  }
}
