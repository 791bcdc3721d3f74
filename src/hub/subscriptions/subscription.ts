import { clock, type Timer } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import { newId } from '../../platform/ids.ts';
import type {
  DeviceCounts,
  DevicesDelta,
  DevicesSnapshot,
  DevicesSubscribe,
  DeviceSummary,
} from '../../protocol/index.ts';
import type { DeviceChange } from './device-change.ts';
import type { FlowControl } from '../wire/flow-controlled-client.ts';
import type { PageReader } from './pages.ts';
import { ShownStatuses } from './shown-statuses.ts';

/** Four frames a second, unless one would be too large. A frame contains the latest state of each device. */
export const FRAME_MS = 250;

/** The most devices in a frame. If there are more, the next frame follows when the client has taken this one. */
const FRAME_DEVICES = 100;
/**
 * A client has fallen behind when it has taken nothing for this long while this many devices wait for it. The waiting
 * changes, about 250 bytes per device, are dropped, and the devices are read again when the client continues.
 */
const BEHIND_MS = 500;
const BEHIND_DEVICES = 1000;
/** A list that cannot be read again is shown as it is, with its changes, until these attempts have failed, too. */
const READ_AGAIN_AFTER_MS = [2000, 4000, 8000, 16_000];

/** The default: a client that takes everything at once. */
const UNLIMITED: FlowControl = { isReady: true, stalledMs: 0, whenReady: setImmediate, cutOff: () => {} };

/** An empty list, for a subscription that has no reader. */
const NO_PAGES: PageReader = async () => ({ devices: [], isLast: true });

interface SubscriptionOptions {
  caller: Caller;
  filter: DevicesSubscribe;
  send: (delta: DevicesDelta) => void;
  flow?: FlowControl;
  /** Starts to read the devices to show from the beginning. */
  pages?: () => PageReader;
  /** Called when reading fails after the first page. Returns whether that ends the subscription; by default it does not. */
  endsWith?: (error: unknown) => boolean;
  /** The devices that the client was shown, initially none. */
  shown?: ShownStatuses;
}

/** One reading of all devices, page by page while the client takes the earlier pages. */
interface Pass {
  next: PageReader;
  /** Devices that were shown before and that this reading has not found yet. */
  unseen: Set<string>;
  /** Whether the last page was read. It may not have been sent yet. */
  isRead: boolean;
}

/** The live device list of one subscriber: what it was shown, and what has changed since the last frame. */
export class Subscription {
  readonly id = newId();
  readonly caller: Caller;
  readonly filter: DevicesSubscribe;
  readonly #send: (delta: DevicesDelta) => void;
  readonly #flow: FlowControl;
  readonly #pages: (() => PageReader) | undefined;
  readonly #endsWith: (error: unknown) => boolean;
  readonly #shown: ShownStatuses;
  readonly #changed = new Map<string, DeviceChange>();
  readonly #entered = new Map<string, DeviceSummary>();
  readonly #left = new Set<string>();
  #seq = 0;
  #timer: Timer | undefined;
  /** While `reading`, the result may contain any device, so changes of all devices are noted. */
  #state: 'reading' | 'live' | 'behind' | 'stopped' = 'reading';
  #waits = false;
  #isOutdated = false;
  #pass: Pass | undefined;
  /** Readings that have failed since a page was read. */
  #failures = 0;
  /** Set while the list waits to be read from the beginning again, because that has failed. */
  #retry: Timer | undefined;
  /** Whether the list was not read since the caller may see other devices. */
  #isAccessUnknown = false;
  /** Whether the client was told that its list is complete. */
  #isComplete = false;

  constructor({
    caller,
    filter,
    send,
    flow = UNLIMITED,
    pages,
    endsWith = () => false,
    shown = new ShownStatuses(),
  }: SubscriptionOptions) {
    this.caller = caller;
    this.filter = filter;
    this.#send = send;
    this.#flow = flow;
    this.#pages = pages;
    this.#endsWith = endsWith;
    this.#shown = shown;
  }

  /** Reads and shows the first page. The others follow in frames as the client takes them. */
  async begin(): Promise<Omit<DevicesSnapshot, 'ok' | 'subscriptionId'>> {
    const next = this.#pages?.() ?? NO_PAGES;
    const { devices, isLast } = await next();
    if (!isLast) this.#pass = { next, unseen: new Set(), isRead: false };
    return { ...this.start(devices), devices: [...devices], complete: isLast };
  }

  /** Shows the initial state. Changes that came while it was read follow in the first frame. */
  start(devices: readonly DeviceSummary[]): { seq: number; counts: DeviceCounts } {
    // The client has disconnected while the state was read.
    if (this.#state === 'stopped') return { seq: this.#seq, counts: this.counts() };
    for (const device of devices) this.#shown.set(device.id, device.status);
    this.#isComplete = this.#pass === undefined;
    this.#live();
    return { seq: this.#seq, counts: this.counts() };
  }

  /** The reading starts only now, so it knows which devices have entered and left so far, and which are not so any more. */
  readsFromHere(): void {
    if (this.#state !== 'reading') return;
    this.#left.clear();
    for (const id of this.#entered.keys()) if (this.#shown.has(id)) this.#pass?.unseen.add(id);
    this.#entered.clear();
  }

  changed(change: DeviceChange): void {
    if (this.#note(change)) this.#schedule();
  }

  /** Shows all changes within the time of a frame at once. Each device occurs once. */
  changedTogether(changes: readonly DeviceChange[]): void {
    const isUpToDate = this.#state === 'live' && !this.#waits && this.#waiting === 0;
    if (isUpToDate && changes.length <= FRAME_DEVICES && this.#flow.isReady) {
      const changed: DevicesDelta['changed'] = [];
      for (const change of changes) this.#show(change, changed);
      return this.#deliver(changed, [], []);
    }
    for (const change of changes) this.#note(change);
    if (this.#state !== 'live' || this.#waiting === 0) return;
    if (this.#waits) return this.#mayFallBehind();
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#whenReady();
  }

  entered(device: DeviceSummary): void {
    if (this.#state === 'behind') return;
    this.#pass?.unseen.delete(device.id);
    this.#left.delete(device.id);
    this.#changed.delete(device.id);
    this.#entered.set(device.id, device);
    this.#schedule();
  }

  /** The device was read again. @param change  what to send if it is already shown */
  refreshed(device: DeviceSummary, change: DeviceChange): void {
    const isShown = this.#shown.has(device.id) && !this.#left.has(device.id);
    if (this.#state === 'live' && isShown) this.changed(change);
    else this.entered(device);
  }

  /** Sets whether a device belongs to the list now. */
  belongs(deviceId: string, belongs: boolean, summary: () => DeviceSummary): void {
    const isShown = this.#entered.has(deviceId) || (this.#shown.has(deviceId) && !this.#left.has(deviceId));
    // The result that is being read may contain an earlier state of the device.
    if (belongs === isShown && this.#state !== 'reading') return;
    if (belongs) this.entered(summary());
    else this.left(deviceId);
  }

  /** The caller may see other devices now. What is shown may not be theirs to see, so it has to be read at once. */
  accessChanged(): void {
    this.#isAccessUnknown = true;
    this.reread();
  }

  /** Reads the whole list again, because it should show other devices or may have missed changes. */
  reread(): void {
    // A reading that is under way may be outdated, so another one follows it.
    if (this.#state === 'reading' || this.#current !== undefined) this.#isOutdated = true;
    else if (this.#state === 'live') this.#beginAgain();
  }

  left(deviceId: string): void {
    if (this.#state === 'behind') return;
    const isKnown = this.#state === 'reading' || this.#shown.has(deviceId);
    this.#entered.delete(deviceId);
    this.#changed.delete(deviceId);
    if (!isKnown) return;
    this.#left.add(deviceId);
    this.#schedule();
  }

  /** Sends now what waits for the next frame, if the client takes it. */
  settle(): void {
    if (this.#timer === undefined) return;
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#whenReady();
  }

  counts(): DeviceCounts {
    return this.#shown.counts();
  }

  stop(): void {
    clock.clear(this.#timer);
    clock.clear(this.#retry);
    this.#timer = undefined;
    this.#state = 'stopped';
    this.#pass = undefined;
    this.#shown.clear();
    this.#dropWaiting();
  }

  /** False when the device is not shown. */
  #note(change: DeviceChange): boolean {
    const { deviceId } = change;
    if (this.#state === 'behind' || this.#left.has(deviceId)) return false;
    const isKnown = this.#state === 'reading' || this.#shown.has(deviceId) || this.#entered.has(deviceId);
    if (!isKnown) return false;
    const waiting = this.#changed.get(deviceId);
    this.#changed.set(deviceId, waiting === undefined ? change : change.after(waiting));
    return true;
  }

  get #waiting(): number {
    return this.#changed.size + this.#entered.size + this.#left.size;
  }

  /** The reading that goes on as the client takes its pages. */
  get #current(): Pass | undefined {
    return this.#retry === undefined ? this.#pass : undefined;
  }

  /** The reading is done: drops noted changes of devices that are not shown. */
  #live(): void {
    for (const id of this.#changed.keys()) {
      if (!this.#shown.has(id) && !this.#entered.has(id)) this.#changed.delete(id);
    }
    for (const id of this.#left) if (!this.#shown.has(id)) this.#left.delete(id);
    this.#state = 'live';
    // The next page must follow the answer that contains the first one.
    if (this.#current !== undefined) return this.#goOnLater();
    if (this.#isOutdated && this.#retry === undefined) return this.#beginAgain();
    if (this.#waiting > 0 || !this.#isComplete) this.#schedule();
  }

  #schedule(): void {
    if (this.#state !== 'live') return;
    if (this.#waits) return this.#mayFallBehind();
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      this.#whenReady();
    }, FRAME_MS);
  }

  #mayFallBehind(): void {
    if (this.#flow.stalledMs < BEHIND_MS || this.#pages === undefined) return;
    if (this.#current === undefined) {
      if (this.#waiting <= BEHIND_DEVICES) return;
      this.#dropWaiting();
      this.#state = 'behind';
    } else if (this.#changed.size + this.#left.size > BEHIND_DEVICES) {
      // The reading continues, because otherwise a slow client would never finish. Another one follows it.
      this.#changed.clear();
      this.#left.clear();
      this.#isOutdated = true;
    }
  }

  #whenReady(): void {
    if (this.#flow.isReady && !this.#waits) this.#goOn();
    else this.#goOnLater();
  }

  #goOnLater(): void {
    if (this.#waits) return;
    this.#waits = true;
    this.#flow.whenReady(() => {
      this.#waits = false;
      this.#goOn();
    });
  }

  /** The client has taken everything it was sent. */
  #goOn(): void {
    if (this.#state === 'behind') return this.#catchUp();
    if (this.#state !== 'live') return;
    const pass = this.#current;
    if (pass === undefined || this.#entered.size > 0) return this.#frame();
    if (!pass.isRead) return void this.#readOn(pass);
    this.#pass = undefined;
    if (this.#isOutdated) this.#beginAgain();
    else this.#frame();
  }

  /** Drops waiting changes and reads everything again. */
  #beginAgain(): void {
    this.#isOutdated = false;
    this.#dropWaiting();
    clock.clear(this.#timer);
    this.#timer = undefined;
    if (this.#waits) this.#state = 'behind';
    else this.#catchUp();
  }

  /** Shows the current state of everything. The client merges it with what it has. */
  #catchUp(): void {
    clock.clear(this.#retry);
    this.#retry = undefined;
    const next = this.#pages?.() ?? NO_PAGES;
    this.#pass = { next, unseen: new Set(this.#shown.ids()), isRead: false };
    void this.#readOn(this.#pass);
  }

  async #readOn(pass: Pass): Promise<void> {
    this.#state = 'reading';
    clock.clear(this.#timer);
    this.#timer = undefined;
    try {
      const { devices, isLast } = await pass.next();
      this.#failures = 0;
      // The subscription may have been stopped meanwhile.
      if ((this.#state as string) !== 'reading') return;
      for (const device of devices) {
        // A device that was shown since the first page is newer than this page and kept current by changes.
        const isKnown = this.#shown.has(device.id) && !pass.unseen.delete(device.id);
        if (isKnown || this.#left.has(device.id) || this.#entered.has(device.id)) continue;
        this.#entered.set(device.id, device);
      }
      if (isLast) {
        pass.isRead = true;
        // Otherwise it was read before, and is read once more.
        if (!this.#isOutdated) this.#isAccessUnknown = false;
        for (const id of pass.unseen) if (!this.#entered.has(id)) this.left(id);
      }
      this.#live();
    } catch (error) {
      if (!this.#endsWith(error)) this.#readLater();
    }
  }

  #readLater(): void {
    if (this.#state === 'stopped') return;
    const afterMs = this.#isAccessUnknown ? undefined : READ_AGAIN_AFTER_MS[this.#failures++];
    // The client subscribes again when it can.
    if (afterMs === undefined) return this.#flow.cutOff();
    this.#retry = clock.setTimeout(
      () => {
        this.#retry = undefined;
        if (this.#state === 'live') this.#beginAgain();
      },
      afterMs * (0.75 + Math.random() / 2),
    );
    this.#live();
  }

  #dropWaiting(): void {
    this.#entered.clear();
    this.#changed.clear();
    this.#left.clear();
  }

  #frame(): void {
    const entered = this.#takeEntered();
    // Entering devices go first: a change must not be shown before the device.
    const changed = this.#takeChanged(FRAME_DEVICES - entered.length);
    const left = firstOf(this.#left, FRAME_DEVICES - entered.length - changed.length);
    for (const id of left) {
      this.#left.delete(id);
      this.#shown.delete(id);
    }
    this.#deliver(changed, entered, left);
    if (this.#waiting > 0 || this.#current !== undefined) this.#whenReady();
  }

  #deliver(changed: DevicesDelta['changed'], entered: DeviceSummary[], left: string[]): void {
    const isAllSent = this.#pass?.isRead !== false && this.#entered.size === 0;
    const completes = isAllSent && !this.#isComplete;
    if (entered.length + changed.length + left.length === 0 && !completes) return;
    this.#seq += 1;
    const delta = { subscriptionId: this.id, seq: this.#seq, changed, entered, left, counts: this.counts() };
    this.#isComplete ||= completes;
    this.#send(completes ? { ...delta, complete: true } : delta);
  }

  #takeEntered(): DeviceSummary[] {
    const entered: DeviceSummary[] = [];
    for (const device of firstOf(this.#entered.values(), FRAME_DEVICES)) {
      const summary = this.#changed.get(device.id)?.over(device) ?? device;
      this.#entered.delete(device.id);
      this.#changed.delete(device.id);
      this.#shown.set(device.id, summary.status);
      entered.push(summary);
    }
    return entered;
  }

  #takeChanged(most: number): DevicesDelta['changed'] {
    const changed: DevicesDelta['changed'] = [];
    if (most <= 0) return changed;
    for (const change of this.#changed.values()) {
      this.#changed.delete(change.deviceId);
      this.#show(change, changed);
      if (changed.length === most) break;
    }
    return changed;
  }

  #show(change: DeviceChange, into: DevicesDelta['changed']): void {
    const before = this.#shown.get(change.deviceId);
    if (before === undefined) return;
    const after = change.statusAfter(before);
    if (after !== before) this.#shown.set(change.deviceId, after);
    into.push(change.shown(after === before ? undefined : after));
  }
}

function firstOf<T>(items: Iterable<T>, most: number): T[] {
  const first: T[] = [];
  if (most <= 0) return first;
  for (const item of items) {
    first.push(item);
    if (first.length >= most) break;
  }
  return first;
}
