import {
  DevicesDelta,
  DevicesEnded,
  DevicesSnapshot,
  type DevicesSubscribe,
} from '../../../../src/protocol/index.ts';
import { MusterError } from '../error.ts';
import { Channel } from './channel.ts';
import { type HubConnection, mayConcern, notUnderstood } from './connection.ts';
import { type DevicesNow, DeviceView } from './device-view.ts';

/** How often a subscription that the server puts off is tried again. */
const PUT_OFF_MAX = 5;
/** Deltas that may come before the snapshot is read. With more, one is missing, and the subscription begins anew. */
const EARLY_MAX = 100;

/**
 * The devices of a subscription whenever they have changed. A program that takes its time gets the newest state, not
 * each one between. After a gap or a lost connection, the subscription begins anew.
 */
export async function* watchDevices(
  hub: HubConnection,
  filter: DevicesSubscribe,
  signal: AbortSignal | undefined,
): AsyncGenerator<DevicesNow, void> {
  signal?.throwIfAborted();
  const watch = new DeviceWatch(hub, filter);
  try {
    for await (const _ of watch.news.read(signal)) {
      const now = watch.take();
      if (now !== undefined) yield now;
    }
  } finally {
    watch.stop();
  }
}

class DeviceWatch {
  /** Has one entry while there is a state that was not taken. */
  readonly news = new Channel<true>(1);
  readonly #hub: HubConnection;
  readonly #filter: DevicesSubscribe;
  readonly #stops: (() => void)[];
  #isPending = false;
  /** None while the server is asked for its first state. */
  #view: DeviceView | undefined;
  #early: DevicesDelta[] = [];
  #attempt = 0;
  #putOff = 0;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(hub: HubConnection, filter: DevicesSubscribe) {
    this.#hub = hub;
    this.#filter = filter;
    const unfit = (message: unknown) => {
      if (!mayConcern(message, 'subscriptionId', this.#view?.subscriptionId)) return;
      this.news.fail(notUnderstood('devices'));
    };
    this.#stops = [
      hub.on('devices:delta', DevicesDelta, (delta) => this.#apply(delta), unfit),
      hub.on('devices:ended', DevicesEnded, (end) => this.#ended(end), unfit),
      hub.onEnd((error) => this.news.fail(error)),
      hub.onLoss(() => this.#cancelAttempt()),
      hub.onLive(() => void this.#begin()),
    ];
  }

  /** The present state; none where the subscription begins anew, so that the next news are its snapshot. */
  take(): DevicesNow | undefined {
    this.#isPending = false;
    return this.#view?.now;
  }

  stop(): void {
    this.#cancelAttempt();
    for (const stop of this.#stops) stop();
    this.#unsubscribe(this.#view?.subscriptionId);
  }

  async #begin(): Promise<void> {
    const attempt = ++this.#attempt;
    this.#view = undefined;
    this.#early = [];
    try {
      const snapshot = await this.#hub.ask('devices:subscribe', this.#filter, DevicesSnapshot);
      if (attempt !== this.#attempt) {
        this.#unsubscribe(snapshot.subscriptionId);
        return;
      }
      this.#putOff = 0;
      this.#view = new DeviceView(snapshot);
      this.#changed();
      for (const delta of this.#early.splice(0)) this.#apply(delta);
    } catch (error) {
      if (attempt === this.#attempt) this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    const { code, retryAfterMs } = error instanceof MusterError ? error : {};
    // The connection is made again, and the subscription with it.
    if (code === 'DISCONNECTED') return;
    if (retryAfterMs === undefined || ++this.#putOff > PUT_OFF_MAX) this.news.fail(error);
    else this.#later = setTimeout(() => void this.#begin(), retryAfterMs);
  }

  #apply(delta: DevicesDelta): void {
    if (this.#view === undefined) {
      if (this.#early.length < EARLY_MAX) this.#early.push(delta);
    } else if (delta.subscriptionId === this.#view.subscriptionId) {
      if (this.#view.apply(delta)) {
        this.#changed();
      } else {
        this.#unsubscribe(delta.subscriptionId);
        void this.#begin();
      }
    }
  }

  #ended({ subscriptionId, code, message }: DevicesEnded): void {
    if (subscriptionId !== this.#view?.subscriptionId) return;
    this.news.fail(new MusterError(0, { code, error: message }));
  }

  #changed(): void {
    if (!this.#isPending) this.news.push(true);
    this.#isPending = true;
  }

  #cancelAttempt(): void {
    this.#attempt++;
    clearTimeout(this.#later);
  }

  #unsubscribe(subscriptionId: string | undefined): void {
    if (subscriptionId !== undefined) this.#hub.send('devices:unsubscribe', { subscriptionId });
  }
}
