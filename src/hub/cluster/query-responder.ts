import { clock } from '../../clock.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { LiveQueryOutcome } from '../device/live-query.ts';
import type { HubMessage, QueryFrame } from './messages.ts';

/** An answer that cannot be delivered is retried for as long as its recipient may wait. */
const ATTEMPTS = 60;
const RETRY_MS = 500;

/** Runs live queries on the devices of this node, for this node and for others. */
export class QueryResponder {
  readonly #registry: ActorRegistry;
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  #isClosed = false;

  constructor(parts: { registry: ActorRegistry; bus: NodeBus<HubMessage>; log: Logger }) {
    this.#registry = parts.registry;
    this.#bus = parts.bus;
    this.#log = parts.log;
  }

  run(
    frame: QueryFrame,
    onRows: (rows: unknown[]) => void,
    settle: (outcome: LiveQueryOutcome) => void,
  ): void {
    const actor = this.#registry.get(frame.deviceId);
    if (actor === undefined) return settle({ ok: false, reason: 'offline' });
    const { id, type, payload, deadline, maxRows } = frame;
    if (!actor.post({ kind: 'query', query: { id, type, payload, deadline, maxRows, onRows, settle } })) {
      settle({ ok: false, reason: actor.state === 'gone' ? 'offline' : 'busy' });
    }
  }

  /** Runs a query for another node and sends it the rows and the answer. */
  runFor(nodeId: string, received: QueryFrame): void {
    const leftMs = received.leftMs ?? Math.max(0, received.deadline - clock.now());
    const frame = { ...received, deadline: clock.now() + leftMs };
    const timer = clock.setTimeout(
      () => this.#registry.get(frame.deviceId)?.cancelQuery(frame.id, { reason: 'timeout' }),
      leftMs,
    );
    const { id } = frame;
    // An answer whose rows were lost on the way must not count as complete.
    let isComplete = true;
    this.run(
      frame,
      (rows) => {
        void this.#send(nodeId, { kind: 'rows', id, rows }).then((delivered) => (isComplete &&= delivered));
      },
      (outcome) => {
        clock.clear(timer);
        if (!outcome.ok) this.#answer(nodeId, () => ({ kind: 'failure', id, failure: outcome }));
        else {
          this.#answer(nodeId, () =>
            isComplete
              ? { kind: 'answer', id, output: outcome.output }
              : { kind: 'failure', id, failure: { reason: 'unavailable' } },
          );
        }
      },
    );
  }

  close(): void {
    this.#isClosed = true;
  }

  #answer(to: string, message: () => HubMessage, attempt = 1): void {
    void this.#send(to, message()).then((delivered) => {
      if (delivered || this.#isClosed || attempt >= ATTEMPTS) return;
      clock.setTimeout(() => this.#answer(to, message, attempt + 1), RETRY_MS).unref();
    });
  }

  /** Resolves to whether the message has reached the node. */
  #send(to: string, message: HubMessage): Promise<boolean> {
    return this.#bus.send(to, message).catch((error: unknown) => {
      this.#log.warn({ err: error, to }, 'hub.bus_send_failed');
      return false;
    });
  }
}
