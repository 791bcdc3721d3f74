import type { DeviceActor } from './device-actor.ts';

/** The actors of this node, one a device. */
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

  /** Puts an actor in its place and answers the one that was there. */
  put(actor: DeviceActor): DeviceActor | undefined {
    const previous = this.#actors.get(actor.deviceId);
    this.#actors.set(actor.deviceId, actor);
    return previous;
  }

  /** Removes the actor, unless another one has taken its place. */
  remove(actor: DeviceActor): void {
    if (this.#actors.get(actor.deviceId) === actor) this.#actors.delete(actor.deviceId);
  }
}
