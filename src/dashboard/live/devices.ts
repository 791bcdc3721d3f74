import { useCallback, useMemo, useSyncExternalStore } from 'react';
import {
  DevicesDelta,
  DevicesEnded,
  DevicesSnapshot,
  type DeviceCounts,
  type DeviceSummary,
  type DevicesSubscribe,
} from '../../protocol/index.ts';
import { HubError, hub } from './socket.ts';

/** The view of a subscription that a page gets. */
export interface LiveDevices {
  devices: readonly DeviceSummary[];
  counts: DeviceCounts;
  /** `stale`: the devices are shown as they were when the connection was lost, or the page was hidden. */
  state: 'loading' | 'live' | 'stale' | 'failed';
  /** False while the server still sends devices of a large fleet. */
  complete: boolean;
  error: HubError | undefined;
}

/** Changes are shown together, four times a second, and once in two seconds in a hidden tab. */
const FRAME_MS = 250;
const HIDDEN_FRAME_MS = 2_000;
/** A page hidden for this long stops its subscription and reads the current state when it is shown again. */
const REST_AFTER_MS = 60_000;

const EMPTY: LiveDevices = {
  devices: [],
  counts: { total: 0, byStatus: {} },
  state: 'loading',
  complete: false,
  error: undefined,
};

/**
 * One subscription, kept while it has watchers. A gap in its numbers, or a new connection, begins it anew; what was
 * shown stays until it is sent again or known to be gone.
 */
class DeviceSubscription {
  readonly #message: DevicesSubscribe;
  readonly #devices = new Map<string, DeviceSummary>();
  /** Devices of an earlier reading that this one has not sent yet. */
  #unconfirmed = new Set<string>();
  readonly #watchers = new Set<() => void>();
  #stop: (() => void)[] = [];
  #shown = EMPTY;
  #subscriptionId: string | undefined;
  #seq = 0;
  #attempt = 0;
  #frame: ReturnType<typeof setTimeout> | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #isResting = false;
  #next: Omit<LiveDevices, 'devices'> = EMPTY;

  constructor(message: DevicesSubscribe) {
    this.#message = message;
  }

  get shown(): LiveDevices {
    return this.#shown;
  }

  watch(callback: () => void): () => void {
    if (this.#watchers.size === 0) this.#begin();
    this.#watchers.add(callback);
    return () => {
      this.#watchers.delete(callback);
      if (this.#watchers.size === 0) this.#end();
    };
  }

  #begin(): void {
    document.addEventListener('visibilitychange', this.#seenOrHidden);
    this.#seenOrHidden();
    this.#stop = [
      () => document.removeEventListener('visibilitychange', this.#seenOrHidden),
      hub.onLive(() => {
        if (!this.#isResting) void this.#subscribe();
      }),
      hub.watch(() => {
        if (hub.state.state === 'live') return;
        this.#subscriptionId = undefined;
        this.#becomeStale();
      }),
      hub.on('devices:delta', DevicesDelta, (delta) => this.#apply(delta)),
      hub.on('devices:ended', DevicesEnded, ({ subscriptionId, code, message }) => {
        if (subscriptionId === this.#subscriptionId) this.#fail(new HubError(code, message));
      }),
    ];
  }

  #end(): void {
    for (const stop of this.#stop) stop();
    this.#stop = [];
    this.#attempt++;
    clearTimeout(this.#frame);
    clearTimeout(this.#rest);
    this.#frame = undefined;
    this.#isResting = false;
    this.#unsubscribe();
  }

  #seenOrHidden = (): void => {
    clearTimeout(this.#rest);
    if (document.hidden) {
      this.#rest = setTimeout(() => {
        this.#isResting = true;
        this.#attempt++;
        this.#unsubscribe();
        this.#becomeStale();
      }, REST_AFTER_MS);
    } else if (this.#isResting) {
      this.#isResting = false;
      void this.#subscribe();
    }
  };

  #becomeStale(): void {
    if (this.#next.state === 'live') this.#change({ state: 'stale' });
  }

  #unsubscribe(): void {
    const subscriptionId = this.#subscriptionId;
    this.#subscriptionId = undefined;
    if (subscriptionId === undefined || hub.state.state !== 'live') return;
    // If this does not arrive, the connection is gone, and the subscription with it.
    void hub
      .ask('devices:unsubscribe', { subscriptionId }, DevicesSnapshot.pick({ ok: true }))
      .catch(() => undefined);
  }

  async #subscribe(): Promise<void> {
    const attempt = ++this.#attempt;
    try {
      const snapshot = await hub.ask('devices:subscribe', this.#message, DevicesSnapshot);
      if (attempt !== this.#attempt) return;
      this.#subscriptionId = snapshot.subscriptionId;
      this.#seq = snapshot.seq;
      this.#unconfirmed = new Set(this.#devices.keys());
      this.#enter(snapshot.devices);
      const { counts, complete } = snapshot;
      if (this.#next.state !== 'stale') this.#change({ state: 'live' });
      this.#change({ complete, error: undefined, ...this.#counted(counts, complete) }, 'now');
    } catch (error) {
      if (attempt === this.#attempt && error instanceof HubError) this.#fail(error);
    }
  }

  #apply(delta: DevicesDelta): void {
    if (delta.subscriptionId !== this.#subscriptionId) return;
    if (delta.seq !== this.#seq + 1) {
      this.#unsubscribe();
      void this.#subscribe();
      return;
    }
    this.#seq = delta.seq;
    this.#enter(delta.entered);
    for (const id of delta.left) this.#devices.delete(id);
    for (const change of delta.changed) {
      const known = this.#devices.get(change.id);
      if (known !== undefined) this.#devices.set(change.id, merged(known, change));
    }
    const complete = this.#next.complete || delta.complete === true;
    this.#change({ complete, ...this.#counted(delta.counts, complete) });
  }

  #enter(devices: readonly DeviceSummary[]): void {
    for (const device of devices) {
      this.#devices.set(device.id, device);
      this.#unconfirmed.delete(device.id);
    }
  }

  /** The devices shown before stay until all new ones have been sent. */
  #counted(counts: DeviceCounts, complete: boolean): Partial<LiveDevices> {
    if (this.#unconfirmed.size > 0 && !complete) return {};
    for (const id of this.#unconfirmed) this.#devices.delete(id);
    this.#unconfirmed.clear();
    return { counts, state: 'live' };
  }

  #fail(error: HubError): void {
    // A lost connection is no failure: the subscription begins anew with the next one.
    if (error.code === 'NOT_CONNECTED') return;
    this.#subscriptionId = undefined;
    this.#change({ state: 'failed', error }, 'now');
    if (error.retryAfterMs === undefined) return;
    const attempt = this.#attempt;
    setTimeout(() => {
      if (attempt === this.#attempt) void this.#subscribe();
    }, error.retryAfterMs);
  }

  #change(change: Partial<Omit<LiveDevices, 'devices'>>, when: 'now' | 'soon' = 'soon'): void {
    this.#next = { ...this.#next, ...change };
    if (when === 'now') this.#show();
    else this.#frame ??= setTimeout(() => this.#show(), document.hidden ? HIDDEN_FRAME_MS : FRAME_MS);
  }

  #show(): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    this.#shown = { ...this.#next, devices: [...this.#devices.values()] };
    for (const callback of this.#watchers) callback();
  }
}

/** The changed fields of a delta; a field that is left out stays as it was. */
function merged(known: DeviceSummary, change: DevicesDelta['changed'][number]): DeviceSummary {
  const changed = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  return { ...known, ...changed };
}

/** The devices of a subscription, kept up to date while the component is shown. `undefined` subscribes to nothing. */
export function useLiveDevices(message: DevicesSubscribe | undefined): LiveDevices {
  const key = message === undefined ? undefined : JSON.stringify(message);
  const subscription = useMemo(
    () => (key === undefined ? undefined : new DeviceSubscription(JSON.parse(key) as DevicesSubscribe)),
    [key],
  );
  const watch = useCallback(
    (callback: () => void) => subscription?.watch(callback) ?? (() => undefined),
    [subscription],
  );
  return useSyncExternalStore(watch, () => subscription?.shown ?? EMPTY);
}
