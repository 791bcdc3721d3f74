import { clock } from '../../clock.ts';
import type { AgentHandshake } from '../../protocol/index.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Directory } from '../cluster/directory.ts';
import type { HubMessage } from '../cluster/messages.ts';
import type { Claimant, AgentIdentity, DeviceStore, UpgradeOffers } from '../ports.ts';
import { type ActorLimits, type DeviceLink, SUPERSEDED } from '../device/actor-messages.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { type ActorEvents, DeviceActor } from '../device/device-actor.ts';

/** More sets than a fleet has. Beyond this number the oldest is no longer shared. */
const SETS_MAX = 256;

/** Agents of one version list the same capabilities, so one copy of each list serves them all. */
export class CapabilitySets {
  readonly #sets = new Map<string, readonly string[]>();

  /** Returns the shared copy of a list. */
  intern(capabilities: readonly string[]): readonly string[] {
    const key = JSON.stringify(capabilities);
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    this.#sets.set(key, capabilities);
    if (this.#sets.size > SETS_MAX) {
      const [oldest] = this.#sets.keys();
      if (oldest !== undefined) this.#sets.delete(oldest);
    }
    return capabilities;
  }
}

const CLAIMS_PER_READ = 1000;

interface Parts {
  registry: ActorRegistry;
  directory: Directory;
  store: Pick<DeviceStore, 'misrecorded'>;
  bus: NodeBus<HubMessage>;
  events: ActorEvents;
  limits: ActorLimits;
  offers: UpgradeOffers;
  log: Logger;
}

const describe = ({ ip, bootId, ...machine }: Claimant) => ({ ip, bootId, machine });

/** Creates an actor for each new connection and claims its device for this node. */
export class AgentConnections {
  readonly #parts: Parts;
  readonly #capabilities = new CapabilitySets();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  connected(connection: {
    identity: AgentIdentity;
    handshake: AgentHandshake;
    link: DeviceLink;
    claimant: Claimant;
  }): DeviceActor {
    const { registry, events, limits, offers, log } = this.#parts;
    const { identity, handshake, link, claimant } = connection;
    const previous = registry.get(identity.deviceId);
    const actor = new DeviceActor({
      identity,
      link,
      events,
      limits,
      offers,
      agentVersion: handshake.agentVersion,
      // A device that waits for approval has no capabilities.
      capabilities: identity.isPending === true ? [] : this.#capabilities.intern(handshake.capabilities),
      ...describe(claimant),
      connectedSince: previous?.countsAsConnected === true ? previous.connectedSince : undefined,
      earlierEpoch: previous?.presenceEpoch ?? 0,
      now: clock.now(),
    });
    registry.put(actor);
    previous?.stop(SUPERSEDED, undefined);
    this.#claim(actor).catch((error: unknown) => {
      log.warn({ err: error, deviceId: actor.deviceId }, 'hub.claim_failed');
      actor.stop({ afterMs: 5000, reason: 'actor_failed' }, 'socket_closed');
    });
    return actor;
  }

  /** Claims a connected device again, because another node has claimed it under the same epoch. */
  renew(deviceId: string): void {
    const actor = this.#parts.registry.get(deviceId);
    if (actor?.state !== 'online') return;
    this.#claim(actor).catch((error: unknown) =>
      this.#parts.log.warn({ err: error, deviceId }, 'hub.claim_not_renewed'),
    );
  }

  /**
   * Corrects what the database says of the connected devices of this node. Devices with a greater epoch than that of
   * their claim are claimed again: a node whose clock is behind gives such claims while Redis is away. Devices that are
   * stored as disconnected are reported again: another node may have marked them as lost after this one was back.
   */
  async correctRecords(): Promise<void> {
    const { registry, store, directory, bus } = this.#parts;
    const online = [...registry.values()].filter(({ state }) => state === 'online');
    for (let start = 0; start < online.length; start += CLAIMS_PER_READ) {
      const claims = online.slice(start, start + CLAIMS_PER_READ);
      for (const { deviceId, difference } of await store.misrecorded(claims)) {
        if (difference === 'disconnected') {
          registry.get(deviceId)?.republish();
          continue;
        }
        // Another node may have the device now, whose claim must stay.
        const owner = await directory.find(deviceId);
        if (owner?.nodeId === bus.nodeId) this.renew(deviceId);
      }
    }
  }

  async #claim(actor: DeviceActor): Promise<void> {
    const { registry, directory, bus, log } = this.#parts;
    const { deviceId } = actor;
    const { epoch, previous } = await directory.claim(deviceId, bus.nodeId);
    if (previous !== undefined && previous.nodeId !== bus.nodeId) {
      // A node that misses this learns of the newer claim from the directory when it is back.
      bus
        .send(previous.nodeId, { kind: 'superseded', deviceId, epoch })
        .catch((error: unknown) => log.warn({ err: error, deviceId }, 'hub.owner_not_notified'));
    }
    if (actor.state !== 'gone') return actor.claimed(epoch);
    // The connection has ended before it had a claim to release. A newer connection would report for the device itself.
    if (registry.get(deviceId) === undefined) actor.claimed(epoch);
    await directory.release(deviceId, epoch);
  }
}
