import type { FleetDevice } from '../ports/fleet-store.ts';

/** Above this number all values are dropped, so that outdated values are not kept for ever. */
const KEPT_MAX = 500_000;

/** Keeps one copy of values that many devices share, such as the name of a model. */
export class Interner {
  #known = new Map<string, unknown>();

  device(device: FleetDevice): FleetDevice {
    return {
      ...device,
      orgId: this.#text(device.orgId),
      partnerId: this.#text(device.partnerId),
      siteId: this.#text(device.siteId),
      groupIds: this.#list(device.groupIds),
      agentVersion: this.#text(device.agentVersion),
      tags: this.#list(device.tags),
      osVersion: this.#text(device.osVersion),
      osBuild: device.osBuild === null ? null : this.#text(device.osBuild),
      hardware: this.#texts(device.hardware),
      network: this.#texts(device.network),
      software: this.#list(device.software),
      customFields: this.#object(device.customFields),
    };
  }

  #text(text: string): string {
    return this.#once(text, () => text);
  }

  #list(texts: readonly string[]): readonly string[] {
    if (texts.length === 0) return NONE;
    // Long lists are rarely shared between devices.
    if (texts.length > LONG) return texts.map((text) => this.#text(text));
    return this.#once(`\0${JSON.stringify(texts)}`, () => texts.map((text) => this.#text(text)));
  }

  #texts<T extends object>(of: T): T {
    const shared = { ...of };
    for (const [key, value] of Object.entries(shared)) {
      if (typeof value === 'string') Object.assign(shared, { [key]: this.#text(value) });
    }
    return shared;
  }

  #object<T extends object>(object: T): T {
    return this.#once(`\0${JSON.stringify(object)}`, () => object);
  }

  /** @param key  the text; of anything else its JSON behind a NUL, which no text from the database has */
  #once<T>(key: string, value: () => T): T {
    const known = this.#known.get(key);
    if (known !== undefined) return known as T;
    if (this.#known.size >= KEPT_MAX) this.#known = new Map();
    const made = value();
    this.#known.set(key, made);
    return made;
  }
}

const NONE: readonly string[] = [];
const LONG = 20;
