import type { HeartbeatAck, UpdatePhase } from '../../protocol/index.ts';
import type { Offer, OfferQuestion, UpgradeOffers } from '../ports/upgrades.ts';

const ENDED: readonly UpdatePhase[] = ['completed', 'failed', 'rolled_back'];
/** A device that has disconnected for longer is not updating any more (SPEC 3). */
const UPDATING_MS = 5 * 60_000;
/** What a device has just reported takes a moment until the offers know of it. */
const SETTLING_MS = 5000;
const NOTHING: HeartbeatAck['upgrade'] = [];

/** What a heartbeat says that decides about upgrades. */
type ReportedFacts = Partial<Pick<OfferQuestion, 'watchdogVersion' | 'autoUpdate'>> &
  Pick<OfferQuestion, 'agentVersion'>;

/** What one device should install, kept from heartbeat to heartbeat, so that most of them cost a comparison. */
export class HeldOffer {
  readonly #offers: UpgradeOffers;
  #offer: Offer | undefined;
  /** When the device reported a phase of an upgrade that has not ended. */
  #updatingSince: number | undefined;

  constructor(offers: UpgradeOffers) {
    this.#offers = offers;
  }

  current(
    device: Pick<OfferQuestion, 'identity' | 'capabilities'>,
    facts: ReportedFacts,
    at: number,
  ): HeartbeatAck['upgrade'] {
    // Whatever else has changed meanwhile, the offers may not know of this upgrade yet.
    if (this.#updatingSince !== undefined && at - this.#updatingSince < SETTLING_MS) return NOTHING;
    let offer = this.#offer;
    if (offer === undefined || at >= offer.until || offer.revision !== this.#offers.revision) {
      const { identity, capabilities } = device;
      const { agentVersion, watchdogVersion, autoUpdate } = facts;
      offer = this.#offers.offer({ identity, capabilities, agentVersion, watchdogVersion, autoUpdate }, at);
      this.#offer = offer;
    }
    return offer.upgrade;
  }

  forget(): void {
    this.#offer = undefined;
  }

  reported(phase: UpdatePhase, at: number): void {
    this.#updatingSince = ENDED.includes(phase) ? undefined : at;
    this.#offer = { upgrade: NOTHING, revision: this.#offers.revision, until: at + SETTLING_MS };
  }

  isUpdating(now: number): boolean {
    return this.#updatingSince !== undefined && now - this.#updatingSince < UPDATING_MS;
  }
}
