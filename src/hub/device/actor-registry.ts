import type { DeviceActor } from './device-actor.ts';

/** The actors of this node, one for each device. */
export class ActorRegistry {
  readonly #actors = new Map<string, DeviceActor>();

  get size(): number {
    return this.#actors.size;
  }

  get(deviceId: string): DeviceActor | undefined {
    return this.#actors.get(deviceId);
  }

  values(): IterableIterator<DeviceActor> {
    return this.#actors.values();
  }

  /** Registers an actor and returns the one that it replaces. */
  put(actor: DeviceActor): DeviceActor | undefined {
    const previous = this.#actors.get(actor.deviceId);
    this.#actors.set(actor.deviceId, actor);
    return previous;
  }

  /** Removes the actor unless another one has replaced it. */
  remove(actor: DeviceActor): void {
    if (this.#actors.get(actor.deviceId) === actor) this.#actors.delete(actor.deviceId);
  }
}
