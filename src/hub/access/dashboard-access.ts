import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import { type AccessChange, concernOf } from './access-change.ts';

/** Rights are looked up this often even where no change was announced. */
const RECHECK_MS = 15_000;
/** A look-up that failed is tried again after this time. */
const RETRY_MS = 1000;
/** So long after the end of a credential it has surely ended. */
const MARGIN_MS = 20;
/** Look-ups that run at once on this node: a change may concern all who are connected, and the pool is everybody's. */
const CHECKS_AT_ONCE = 4;

/** What one connection needs for its rights to be looked up. */
export interface AccessOptions {
  caller: Caller;
  /** Throws an `AppError` where the credential does not count any more. */
  authenticate: () => Promise<Caller>;
  /** The connection has to end: the credential has died, or the rights are other ones. */
  onLost: () => void;
  /** The rights are the same, but the devices that they reach may be others. */
  onDevicesChanged: () => void;
}

/** The rights behind all dashboard connections of this node, which are looked up again as soon as they may have changed. */
export class DashboardAccess {
  readonly #open = new Set<ConnectionAccess>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  readonly recheckMs: number;
  readonly isInTouch: () => boolean;
  readonly log: Logger;

  /** @param options.isInTouch  whether announced changes reach this node at this moment */
  constructor(options: { log: Logger; isInTouch: () => boolean; recheckMs?: number | undefined }) {
    this.log = options.log;
    this.isInTouch = options.isInTouch;
    this.recheckMs = options.recheckMs ?? RECHECK_MS;
  }

  admit(options: AccessOptions): ConnectionAccess {
    const access = new ConnectionAccess(this, options, () => this.#open.delete(access));
    this.#open.add(access);
    return access;
  }

  changed(changes: readonly AccessChange[]): void {
    for (const access of this.#open) {
      const concerns = changes.map((change) => concernOf(change, access.caller));
      const devices = concerns.some((concern) => concern.devices);
      if (devices || concerns.some(({ rights }) => rights)) void access.recheck({ devices });
    }
  }

  /** Changes may have been missed. */
  unsure(): void {
    for (const access of this.#open) void access.recheck({ devices: true });
  }

  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= CHECKS_AT_ONCE) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      // The place is handed to whoever waits longest.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}

/** The rights of one connection. */
export class ConnectionAccess {
  caller: Caller;
  readonly #all: DashboardAccess;
  readonly #options: AccessOptions;
  readonly #onClose: () => void;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;
  #isOutdated = false;
  #devicesMayDiffer = false;
  #isUnknown = false;
  #isClosed = false;

  constructor(all: DashboardAccess, options: AccessOptions, onClose: () => void) {
    this.#all = all;
    this.#options = options;
    this.#onClose = onClose;
    this.caller = options.caller;
    this.#recheckLater();
  }

  /**
   * The caller, where no change of the rights is unaccounted for; otherwise they are looked up first. New work begins
   * with this. Throws `unauthenticated` on a connection that has ended, `unavailable` where nobody can say.
   */
  async current(): Promise<Caller> {
    if (this.#checking !== undefined || this.#isUnknown || !this.#all.isInTouch()) await this.recheck();
    if (this.#isClosed) throw new AppError('unauthenticated', 'This connection has ended. Sign in again.');
    if (this.#isUnknown) {
      throw new AppError('unavailable', 'Service temporarily unavailable', { retryAfterMs: RETRY_MS });
    }
    return this.caller;
  }

  /** Looks the rights up. A look-up that has begun before may have read what was there before: another one follows it. */
  recheck({ devices = false }: { devices?: boolean } = {}): Promise<void> {
    this.#isOutdated = true;
    this.#devicesMayDiffer ||= devices;
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      this.#recheckLater();
    });
    return this.#checking;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#onClose();
  }

  async #check(): Promise<void> {
    clearTimeout(this.#timer);
    while (this.#isOutdated && !this.#isClosed) {
      try {
        const now = await this.#all.inTurn(() => {
          this.#isOutdated = false;
          return this.#options.authenticate();
        });
        if (rights(now) !== rights(this.caller)) return this.#lose();
        this.caller = now;
        this.#isUnknown = false;
      } catch (error) {
        if (error instanceof AppError && error.code !== 'unavailable') return this.#lose();
        if (!this.#isUnknown) this.#all.log.warn({ err: error }, 'hub.dashboard_recheck_failed');
        this.#isUnknown = true;
        return;
      }
    }
    if (!this.#devicesMayDiffer || this.#isClosed) return;
    this.#devicesMayDiffer = false;
    this.#options.onDevicesChanged();
  }

  #lose(): void {
    if (this.#isClosed) return;
    this.close();
    this.#options.onLost();
  }

  #recheckLater(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const waitMs = this.#isUnknown ? RETRY_MS : this.#all.recheckMs;
    const validMs = (this.caller.validUntil?.getTime() ?? 0) - Date.now();
    // By the clock of the database it may be over somewhat later than by ours: then the next regular look-up finds it.
    const isSoonOver = validMs > 0 && validMs < waitMs;
    this.#timer = setTimeout(() => void this.recheck(), isSoonOver ? validMs + MARGIN_MS : waitMs);
  }
}

function rights({ scope, partnerId, orgAccess, orgIds, roleId, permissions }: Caller): string {
  return JSON.stringify([scope, partnerId, orgAccess, [...orgIds].sort(), roleId, [...permissions].sort()]);
}
