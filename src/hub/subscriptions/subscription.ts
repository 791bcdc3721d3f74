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
import type { PageReader } from './device-pages.ts';
import type { Pace } from '../sockets/flow-controlled-client.ts';
import { StatusTally } from './shown-statuses.ts';

/** Four frames a second, unless one would be too large; the latest state of a device wins within one. */
export const FRAME_MS = 250;

/** One frame brings no more devices than this; where there are more, the next follows when it was taken. */
const FRAME_DEVICES = 100;
/**
 * A client that has taken nothing for so long while so many devices wait for it has fallen behind: what waits is
 * forgotten, and read again when it goes on. Some 250 bytes a device.
 */
const BEHIND_MS = 500;
const BEHIND_DEVICES = 1000;

/** Takes everything at once: the default, where nobody says otherwise. */
const UNPACED: Pace = { isReady: true, stalledMs: 0, whenReady: setImmediate, cutOff: () => {} };

/** Where nothing can be read there is nothing to show. */
const NO_PAGES: PageReader = async () => ({ devices: [], isLast: true });

interface SubscriptionOptions {
  caller: Caller;
  filter: DevicesSubscribe;
  send: (delta: DevicesDelta) => void;
  pace?: Pace;
  /** Reads what is to be shown as it is now, from its beginning. */
  pages?: () => PageReader;
  /** Called where that fails later on; whoever comes back reads it then. By default the connection ends. */
  onUnreadable?: (error: unknown) => void;
  /** What it has shown, which is nothing yet. */
  shown?: StatusTally;
}

/** All devices that are to be shown, read page by page while the client takes what was read before. */
interface Pass {
  next: PageReader;
  /** Of those that were shown before, which the pass has not come upon. */
  unseen: Set<string>;
  /** Whether the last page has been read; it may not have been sent yet. */
  isRead: boolean;
}

/** One subscriber's view: what it was shown, and what has changed since the last frame. */
export class Subscription {
  readonly id = newId();
  readonly caller: Caller;
  readonly filter: DevicesSubscribe;
  readonly #send: (delta: DevicesDelta) => void;
  readonly #pace: Pace;
  readonly #pages: (() => PageReader) | undefined;
  readonly #onUnreadable: (error: unknown) => void;
  readonly #shown: StatusTally;
  readonly #changed = new Map<string, DeviceChange>();
  readonly #entered = new Map<string, DeviceSummary>();
  readonly #left = new Set<string>();
  #seq = 0;
  #timer: NodeJS.Timeout | undefined;
  /** While the state is being read it may hold any device: what happens to each is noted. */
  #state: 'reading' | 'live' | 'behind' | 'stopped' = 'reading';
  #waits = false;
  #isOutdated = false;
  #pass: Pass | undefined;
  /** Whether the client has been told that it has all devices. */
  #isComplete = false;

  constructor({
    caller,
    filter,
    send,
    pace = UNPACED,
    pages,
    onUnreadable = () => pace.cutOff(),
    shown = new StatusTally(),
  }: SubscriptionOptions) {
    this.caller = caller;
    this.filter = filter;
    this.#send = send;
    this.#pace = pace;
    this.#pages = pages;
    this.#onUnreadable = onUnreadable;
    this.#shown = shown;
  }

  /** Reads and shows the first page. The others follow in frames, as the client takes them. */
  async begin(): Promise<Omit<DevicesSnapshot, 'ok' | 'subscriptionId'>> {
    const next = this.#pages?.() ?? NO_PAGES;
    const { devices, isLast } = await next();
    if (!isLast) this.#pass = { next, unseen: new Set(), isRead: false };
    return { ...this.start(devices), devices: [...devices], complete: isLast };
  }

  /** Shows the first state. Changes that came while it was read follow in the first frame. */
  start(devices: readonly DeviceSummary[]): { seq: number; counts: DeviceCounts } {
    // Whoever it was for has gone while it was read.
    if (this.#state === 'stopped') return { seq: this.#seq, counts: this.counts() };
    for (const device of devices) this.#shown.set(device.id, device.status);
    this.#isComplete = this.#pass === undefined;
    this.#live();
    return { seq: this.#seq, counts: this.counts() };
  }

  /** What is read from now on knows of all that have left so far, and of those among them that are back. */
  readsFromHere(): void {
    if (this.#state === 'reading') this.#left.clear();
  }

  changed(change: DeviceChange): void {
    if (this.#note(change)) this.#schedule();
  }

  /** All that changed within the time of a frame, each device once: what there is to show is shown now. */
  changedTogether(changes: readonly DeviceChange[]): void {
    const isUpToDate = this.#state === 'live' && !this.#waits && this.#waiting === 0;
    if (isUpToDate && changes.length <= FRAME_DEVICES && this.#pace.isReady) {
      const changed: DevicesDelta['changed'] = [];
      for (const change of changes) this.#show(change, changed);
      return this.#deliver(changed, [], []);
    }
    for (const change of changes) this.#note(change);
    if (this.#state !== 'live' || this.#waiting === 0) return;
    if (this.#waits) return this.#mayFallBehind();
    clearTimeout(this.#timer);
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

  /** The device as it was read anew. @param change  what it is to those who were shown it before */
  refreshed(device: DeviceSummary, change: DeviceChange): void {
    const isShown = this.#shown.has(device.id) && !this.#left.has(device.id);
    if (this.#state === 'live' && isShown) this.changed(change);
    else this.entered(device);
  }

  /** Whether a device belongs to what is shown, as it is now. */
  belongs(deviceId: string, belongs: boolean, summary: () => DeviceSummary): void {
    const isShown = this.#entered.has(deviceId) || (this.#shown.has(deviceId) && !this.#left.has(deviceId));
    // What is being read may hold it as it was before.
    if (belongs === isShown && this.#state !== 'reading') return;
    if (belongs) this.entered(summary());
    else this.left(deviceId);
  }

  /** What it shows is something else now, or some of it may have been missed: all of it is read anew. */
  reread(): void {
    // What is being read may be of before: it is read again when that has come to its end.
    if (this.#state === 'reading' || this.#pass !== undefined) this.#isOutdated = true;
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

  counts(): DeviceCounts {
    return this.#shown.counts();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#state = 'stopped';
    this.#pass = undefined;
    this.#shown.clear();
    this.#forget();
  }

  /** False where the device is none that is shown. */
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

  /** From now on only what is shown matters. */
  #live(): void {
    for (const id of this.#changed.keys()) {
      if (!this.#shown.has(id) && !this.#entered.has(id)) this.#changed.delete(id);
    }
    for (const id of this.#left) if (!this.#shown.has(id)) this.#left.delete(id);
    this.#state = 'live';
    // The next page never comes before the answer that has brought the first.
    if (this.#pass !== undefined) return this.#goOnLater();
    if (this.#isOutdated) return this.#beginAgain();
    if (this.#waiting > 0 || !this.#isComplete) this.#schedule();
  }

  #schedule(): void {
    if (this.#state !== 'live') return;
    if (this.#waits) return this.#mayFallBehind();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#whenReady();
    }, FRAME_MS);
  }

  #mayFallBehind(): void {
    if (this.#pace.stalledMs < BEHIND_MS || this.#pages === undefined) return;
    if (this.#pass === undefined) {
      if (this.#waiting <= BEHIND_DEVICES) return;
      this.#forget();
      this.#state = 'behind';
    } else if (this.#changed.size + this.#left.size > BEHIND_DEVICES) {
      // The pass goes on, or a slow client would never come to its end; another one follows it.
      this.#changed.clear();
      this.#left.clear();
      this.#isOutdated = true;
    }
  }

  #whenReady(): void {
    if (this.#pace.isReady && !this.#waits) this.#goOn();
    else this.#goOnLater();
  }

  #goOnLater(): void {
    if (this.#waits) return;
    this.#waits = true;
    this.#pace.whenReady(() => {
      this.#waits = false;
      this.#goOn();
    });
  }

  /** The client has taken all it was sent. */
  #goOn(): void {
    if (this.#state === 'behind') return this.#catchUp();
    if (this.#state !== 'live') return;
    if (this.#pass === undefined || this.#entered.size > 0) return this.#frame();
    if (!this.#pass.isRead) return void this.#readOn(this.#pass);
    this.#pass = undefined;
    if (this.#isOutdated) this.#beginAgain();
    else this.#frame();
  }

  /** What waits is forgotten, and everything is read and shown anew. */
  #beginAgain(): void {
    this.#isOutdated = false;
    this.#forget();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waits) this.#state = 'behind';
    else this.#catchUp();
  }

  /** Shows everything anew, as it is: the client lays it over what it has. */
  #catchUp(): void {
    const next = this.#pages?.() ?? NO_PAGES;
    this.#pass = { next, unseen: new Set(this.#shown.ids()), isRead: false };
    void this.#readOn(this.#pass);
  }

  async #readOn(pass: Pass): Promise<void> {
    this.#state = 'reading';
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      const { devices, isLast } = await pass.next();
      // It may have been stopped meanwhile.
      if ((this.#state as string) !== 'reading') return;
      for (const device of devices) {
        // What was shown since the first page is newer, and follows what is announced.
        const isKnown = this.#shown.has(device.id) && !pass.unseen.delete(device.id);
        if (isKnown || this.#left.has(device.id) || this.#entered.has(device.id)) continue;
        this.#entered.set(device.id, device);
      }
      if (isLast) {
        pass.isRead = true;
        for (const id of pass.unseen) if (!this.#entered.has(id)) this.left(id);
      }
      this.#live();
    } catch (error) {
      this.#onUnreadable(error);
    }
  }

  #forget(): void {
    this.#entered.clear();
    this.#changed.clear();
    this.#left.clear();
  }

  #frame(): void {
    const entered = this.#takeEntered();
    // Behind those that enter: a change that came later must not be shown before.
    const changed = this.#takeChanged(FRAME_DEVICES - entered.length);
    const left = firstOf(this.#left, FRAME_DEVICES - entered.length - changed.length);
    for (const id of left) {
      this.#left.delete(id);
      this.#shown.delete(id);
    }
    this.#deliver(changed, entered, left);
    if (this.#waiting > 0 || this.#pass !== undefined) this.#whenReady();
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
