import type { DashboardParts } from '../../src/hub/dashboard/dashboard-transport.ts';
import { storedPages } from '../../src/hub/subscriptions/pages.ts';
import { Subscription } from '../../src/hub/subscriptions/subscription.ts';
import type { Caller } from '../../src/platform/context.ts';
import type { DevicesDelta, DeviceStatus } from '../../src/protocol/index.ts';
import type { Process, World } from './world.ts';

const AGAIN_MS = 1000;

/** Somebody who sees everything. */
const CALLER: Caller = {
  kind: 'user',
  userId: 'person',
  sessionId: 'session',
  apiKeyId: null,
  email: 'person@example.test',
  name: 'Person',
  scope: 'system',
  orgAccess: 'all',
  partnerId: null,
  orgIds: [],
  orgId: null,
  roleId: 'role',
  roleName: 'Role',
  permissions: new Set(['devices:read']),
  mfa: true,
  ipAllowlist: [],
};

/** A device list that a person looks at on one server. It follows the real subscription. */
export class Dashboard {
  /** By device, what the person sees. */
  readonly shown = new Map<string, DeviceStatus>();
  readonly #world: World;
  readonly #owner: Process;
  readonly #parts: DashboardParts;
  #subscription: Subscription | undefined;
  #isClosed = false;

  constructor(world: World, owner: Process, parts: DashboardParts) {
    this.#world = world;
    this.#owner = owner;
    this.#parts = parts;
    this.#subscribe();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#subscription !== undefined) this.#parts.feed.remove(this.#subscription);
  }

  #subscribe(): void {
    if (this.#isClosed) return;
    const { feed, store, latest } = this.#parts;
    let isOver = false;
    const again = () => {
      if (isOver) return;
      isOver = true;
      feed.remove(subscription);
      this.shown.clear();
      this.#world.after(AGAIN_MS, this.#owner, () => this.#subscribe());
    };
    const subscription = new Subscription({
      caller: CALLER,
      filter: {},
      send: (delta) => this.#show(delta),
      // A client that takes everything at once.
      flow: {
        isReady: true,
        stalledMs: 0,
        whenReady: (callback) => void setImmediate(callback),
        cutOff: again,
      },
      pages: () => storedPages(store, latest, { caller: CALLER, filter: {} }),
    });
    this.#subscription = subscription;
    feed.add(subscription);
    subscription.begin().then(({ devices }) => {
      for (const { id, status } of devices) this.shown.set(id, status);
    }, again);
  }

  #show({ changed, entered, left }: DevicesDelta): void {
    for (const { id, status } of entered) this.shown.set(id, status);
    for (const { id, status } of changed) if (status !== undefined) this.shown.set(id, status);
    for (const id of left) this.shown.delete(id);
  }
}
