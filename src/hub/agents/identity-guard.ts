import { clock, type Timer } from '../../clock.ts';
import { newId } from '../../platform/ids.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Refusal } from '../../protocol/index.ts';
import type { Directory } from '../cluster/directory.ts';
import { type Challenge, type HubMessage, IdentityMessage } from '../cluster/messages.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { AgentIdentity, Claimant, IdentityConflict } from '../ports.ts';

/** How long the program that holds a device has to show that it is alive: a dead socket may look open for minutes. */
const PROOF_MS = 3000;
/** How much longer another node may take to answer. */
const TRANSIT_MS = 500;
const RETRY_AFTER_MS = 60_000;
/** A conflict that lasts is noted again after this time. */
const NOTED_FOR_MS = 10 * 60_000;
/** A device whose replaced connection turned out to be alive is examined more closely for this time. */
const CONTESTED_FOR_MS = 3_600_000;
/** One living connection that was replaced may be an accident of the network. */
const OUTLIVED_MAX = 2;
/** Replacements closer together than this count once: a competing program returns only after a minute. */
const OUTLIVED_APART_MS = 30_000;
const DEVICES_MAX = 10_000;

interface Parts {
  registry: ActorRegistry;
  directory: Directory;
  bus: NodeBus<HubMessage>;
  /** Stores a conflict, which raises an alert. */
  record: (conflict: IdentityConflict) => Promise<void>;
  log: Logger;
}

interface Dispute {
  notedUntil: number;
  outlived: number;
  outlivedAt: number;
  contestedUntil: number;
}

/**
 * Decides whether a connection may replace the one that holds its device. A program that connects again replaces its own
 * earlier connection at once. Another start of the program does so only when the earlier one does not answer any more:
 * two machines with one token would otherwise replace each other for ever, and commands would run on either of them.
 */
export class IdentityGuard {
  readonly #parts: Parts;
  readonly #disputes = new Map<string, Dispute>();
  readonly #open = new Map<string, { nodeId: string; settle: (holder: Claimant | undefined) => void }>();
  readonly #recording = new Set<Promise<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.bus.onNodeLost((lost) => {
      for (const { nodeId, settle } of this.#open.values()) if (nodeId === lost) settle(undefined);
    });
  }

  /** Why the claimant has to wait; `undefined` if it may connect. */
  async refusal(identity: AgentIdentity, claimant: Claimant): Promise<Refusal | undefined> {
    const holder = await this.#holder({
      deviceId: identity.deviceId,
      bootId: claimant.bootId,
      isContested: this.#isContested(identity.deviceId),
    });
    if (holder === undefined) return undefined;
    this.#note(identity, holder, claimant);
    return { code: 'IDENTITY_CONFLICT', retryAfterMs: RETRY_AFTER_MS };
  }

  /** The program that is connected as the device, on whichever node, and answers at this moment. */
  async provenHolder(deviceId: string): Promise<Claimant | undefined> {
    return this.#holder({ deviceId, isContested: true });
  }

  /** A connection that was replaced was alive: two programs have used the device at the same time. */
  outlived(identity: AgentIdentity, replaced: Claimant): void {
    const now = clock.monotonic();
    const dispute = this.#disputeOf(identity.deviceId);
    if (now - dispute.outlivedAt > OUTLIVED_APART_MS) {
      dispute.outlived = dispute.contestedUntil > now ? dispute.outlived + 1 : 1;
      dispute.outlivedAt = now;
      dispute.contestedUntil = now + CONTESTED_FOR_MS;
    }
    const current = this.#parts.registry.get(identity.deviceId)?.claimant;
    // With one start of the program on both sides, it takes a second time: see `OUTLIVED_MAX`.
    if (current?.bootId === replaced.bootId && dispute.outlived < OUTLIVED_MAX) return;
    this.#note(identity, current ?? replaced, replaced);
  }

  /** Handles a message from another node. False when it is none of these. */
  receive(from: string, raw: unknown): boolean {
    const parsed = IdentityMessage.safeParse(raw);
    if (!parsed.success) return false;
    const message = parsed.data;
    if (message.kind === 'challenged') this.#open.get(message.id)?.settle(message.holder ?? undefined);
    else void this.#answer(from, message);
    return true;
  }

  /** Resolves when the conflicts that were noted are stored. */
  async settle(): Promise<void> {
    await Promise.all(this.#recording);
  }

  async #answer(
    from: string,
    { id, challenge }: Extract<IdentityMessage, { kind: 'challenge' }>,
  ): Promise<void> {
    const holder = (await this.#heldHere(challenge)) ?? null;
    await this.#parts.bus.send(from, { kind: 'challenged', id, holder }).catch(this.#unsent);
  }

  async #holder(challenge: Challenge): Promise<Claimant | undefined> {
    const { registry, directory, bus, log } = this.#parts;
    if (registry.get(challenge.deviceId)?.isConnected === true) return this.#heldHere(challenge);
    try {
      const owner = await directory.find(challenge.deviceId);
      if (owner === undefined || owner.nodeId === bus.nodeId) return undefined;
      return await this.#heldThere(owner.nodeId, challenge);
    } catch (error) {
      // Devices come back while Redis is away: a conflict shows itself again when it has returned.
      log.warn({ err: error }, 'hub.holder_not_found');
      return undefined;
    }
  }

  async #heldHere({ deviceId, bootId, isContested }: Challenge): Promise<Claimant | undefined> {
    const actor = this.#parts.registry.get(deviceId);
    if (actor?.isConnected !== true) return undefined;
    const isSameProgram = actor.claimant.bootId === bootId;
    if (isSameProgram && !isContested && !this.#isContested(deviceId)) return undefined;
    return (await actor.answers(PROOF_MS)) ? actor.claimant : undefined;
  }

  /** A node that does not answer holds nothing: it may be gone, or of an earlier release. */
  async #heldThere(nodeId: string, challenge: Challenge): Promise<Claimant | undefined> {
    const id = newId();
    let timer: Timer | undefined;
    const answer = new Promise<Claimant | undefined>((resolve) => {
      this.#open.set(id, { nodeId, settle: resolve });
      timer = clock.setTimeout(() => resolve(undefined), PROOF_MS + TRANSIT_MS);
    });
    try {
      const isDelivered = await this.#parts.bus.send(nodeId, { kind: 'challenge', id, challenge });
      return isDelivered ? await answer : undefined;
    } finally {
      clock.clear(timer);
      this.#open.delete(id);
    }
  }

  #isContested(deviceId: string): boolean {
    const dispute = this.#disputes.get(deviceId);
    return (
      dispute !== undefined && dispute.outlived >= OUTLIVED_MAX && dispute.contestedUntil > clock.monotonic()
    );
  }

  #disputeOf(deviceId: string): Dispute {
    const known = this.#disputes.get(deviceId);
    if (known !== undefined) return known;
    const [oldest] = this.#disputes.keys();
    if (this.#disputes.size >= DEVICES_MAX && oldest !== undefined) this.#disputes.delete(oldest);
    const dispute = {
      notedUntil: Number.NEGATIVE_INFINITY,
      outlived: 0,
      outlivedAt: Number.NEGATIVE_INFINITY,
      contestedUntil: 0,
    };
    this.#disputes.set(deviceId, dispute);
    return dispute;
  }

  #note({ deviceId, orgId }: AgentIdentity, holder: Claimant, other: Claimant): void {
    const dispute = this.#disputeOf(deviceId);
    if (dispute.notedUntil > clock.monotonic()) return;
    dispute.notedUntil = clock.monotonic() + NOTED_FOR_MS;
    const { record, log } = this.#parts;
    log.warn({ deviceId, holder: holder.ip, other: other.ip }, 'hub.identity_conflict');
    const recording = record({ deviceId, orgId, holder, other })
      .catch((error: unknown) => {
        dispute.notedUntil = Number.NEGATIVE_INFINITY;
        log.warn({ err: error, deviceId }, 'hub.identity_conflict_not_stored');
      })
      .finally(() => this.#recording.delete(recording));
    this.#recording.add(recording);
  }

  readonly #unsent = (error: unknown) => this.#parts.log.warn({ err: error }, 'hub.bus_send_failed');
}
