import type { DeviceActor } from './device-actor.ts';
import { clock } from '../../clock.ts';

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

/** The most agents a second that reconnect after a drain. They choose a random time within the resulting period. */
const RECONNECTS_PER_SECOND = 200;
const DRAIN_QUERIES_MS = 3000;
const LOOK_MS = 50;
/** For the frames that send the agents away. */
const FLUSH_MS = 20;

/** Lets open queries end for a moment, and then sends all agents away, each with its own time to come back. */
export async function drainActors(registry: ActorRegistry): Promise<void> {
  const deadline = clock.monotonic() + DRAIN_QUERIES_MS;
  while (clock.monotonic() < deadline && [...registry.values()].some((actor) => actor.openQueries > 0)) {
    await pause(LOOK_MS);
  }
  const spreadMs = 1000 + (registry.size / RECONNECTS_PER_SECOND) * 1000;
  for (const actor of registry.values()) {
    actor.stop({ afterMs: Math.round(1000 + Math.random() * spreadMs), reason: 'draining' }, 'socket_closed');
  }
  await pause(FLUSH_MS);
}

const pause = (ms: number) => clock.sleep(ms);
