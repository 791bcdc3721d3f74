import type { Unseen } from './compare.ts';

interface Named {
  deviceId: string;
}

/** Which devices belong to something, and since when: to the target of a rule, to an organization, to those in service. */
export class Coverage {
  readonly #begin: number;
  readonly #turns = new Map<string, { at: number; isIn: boolean }[]>();

  constructor(begin: number, devices: readonly Named[] = []) {
    this.#begin = begin;
    for (const device of devices) this.turn(device, true, begin);
  }

  turn({ deviceId }: Named, isIn: boolean, at: number): void {
    const turns = this.#turns.get(deviceId) ?? [];
    this.#turns.set(deviceId, turns);
    turns.push({ at, isIn });
  }

  has({ deviceId }: Named): boolean {
    return this.#turns.get(deviceId)?.at(-1)?.isIn === true;
  }

  /** Since when a device that once belonged to it does not any more. */
  leftAt({ deviceId }: Named): number | undefined {
    const last = this.#turns.get(deviceId)?.at(-1);
    return last?.isIn === false ? last.at : undefined;
  }

  /** The times before the device last came in which it did not belong to it. What stood when it left was resolved. */
  unseenOf({ deviceId }: Named): Unseen[] {
    const unseen: Unseen[] = [];
    let outSince: Unseen | undefined = { from: this.#begin, to: this.#begin };
    for (const { at, isIn } of this.#turns.get(deviceId) ?? []) {
      if (!isIn) outSince ??= { from: at, to: at, ends: true };
      else if (outSince !== undefined) {
        if (at > outSince.from) unseen.push({ ...outSince, to: at });
        outSince = undefined;
      }
    }
    return unseen;
  }
}
