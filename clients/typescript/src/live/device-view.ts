import type {
  DeviceCounts,
  DevicesDelta,
  DevicesSnapshot,
  DeviceSummary,
} from '../../../../src/protocol/index.ts';

/** The devices of a subscription at one moment. */
export interface DevicesNow {
  devices: ReadonlyMap<string, DeviceSummary>;
  /** Of all devices of the subscription as soon as it is complete, and before of those that are here. */
  counts: DeviceCounts;
  /** False while the server still sends devices of a large fleet. */
  complete: boolean;
}

/** Applies the deltas of one subscription to its snapshot. */
export class DeviceView {
  readonly subscriptionId: string;
  readonly #devices: Map<string, DeviceSummary>;
  #seq: number;
  #counts: DeviceCounts;
  #complete: boolean;

  constructor({ subscriptionId, seq, devices, counts, complete }: DevicesSnapshot) {
    this.subscriptionId = subscriptionId;
    this.#devices = new Map(devices.map((device) => [device.id, device]));
    this.#seq = seq;
    this.#counts = counts;
    this.#complete = complete;
  }

  /** Answers false, and changes nothing, where a delta before this one is missing. */
  apply({ seq, entered, left, changed, counts, complete }: DevicesDelta): boolean {
    if (seq !== this.#seq + 1) return false;
    this.#seq = seq;
    for (const device of entered) this.#devices.set(device.id, device);
    for (const id of left) this.#devices.delete(id);
    for (const { id, ...fields } of changed) {
      const known = this.#devices.get(id);
      if (known !== undefined) this.#devices.set(id, { ...known, ...present(fields) });
    }
    this.#counts = counts;
    this.#complete ||= complete === true;
    return true;
  }

  get now(): DevicesNow {
    return { devices: new Map(this.#devices), counts: this.#counts, complete: this.#complete };
  }
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** A field that is left out stays as it was. */
const present = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
