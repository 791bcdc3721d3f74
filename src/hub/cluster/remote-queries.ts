import { COMMANDS, rowSchema } from '../../protocol/index.ts';
import type { NodeBus } from '../../platform/cluster/node-bus.ts';
import type { Logger } from '../../platform/logger.ts';
import type { LiveQueryFailure, LiveQueryOutcome } from '../device/live-query.ts';
import type { HubMessage, QueryFrame } from './messages.ts';

interface RemoteQuery {
  nodeId: string;
  frame: QueryFrame;
  onRows(rows: unknown[]): void;
  settle(outcome: LiveQueryOutcome): void;
}

/** Live queries of this node to devices that other nodes own, until they are answered. */
export class RemoteQueries {
  readonly #bus: NodeBus<HubMessage>;
  readonly #log: Logger;
  readonly #open = new Map<string, RemoteQuery>();

  constructor(bus: NodeBus<HubMessage>, log: Logger) {
    this.#bus = bus;
    this.#log = log;
  }

  get size(): number {
    return this.#open.size;
  }

  send(query: RemoteQuery): void {
    const { frame, nodeId } = query;
    this.#open.set(frame.id, query);
    this.#bus.send(nodeId, frame).then(
      (delivered) => {
        if (!delivered) this.#settle(frame.id, { ok: false, reason: 'offline' });
      },
      () => this.#settle(frame.id, { ok: false, reason: 'unavailable' }),
    );
  }

  /** Cancels the query on the device as well. */
  cancel(id: string, failure: LiveQueryFailure, outcome: LiveQueryFailure = failure): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    const { nodeId, frame } = query;
    this.#bus
      .send(nodeId, { kind: 'cancel', id, deviceId: frame.deviceId, failure })
      .catch((error: unknown) => this.#log.warn({ err: error, to: nodeId }, 'hub.bus_send_failed'));
    this.#settle(id, { ok: false, ...outcome });
  }

  /** Cancels all queries: their answers would reach nobody. */
  close(): void {
    for (const id of this.#open.keys()) this.cancel(id, { reason: 'cancelled' }, { reason: 'node_lost' });
  }

  rows(from: string, id: string, rows: unknown[]): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    const parsed = rowSchema(query.frame.type)?.array().safeParse(rows);
    if (parsed?.success === true) query.onRows(parsed.data);
    else this.#refuse(from, id);
  }

  answer(from: string, id: string, output: unknown): void {
    const query = this.#open.get(id);
    if (query === undefined) return;
    const parsed = COMMANDS[query.frame.type].output.safeParse(output);
    if (parsed.success) this.#settle(id, { ok: true, output: parsed.data });
    else this.#refuse(from, id);
  }

  failure(id: string, failure: LiveQueryFailure): void {
    this.#settle(id, { ok: false, ...failure });
  }

  nodeLost(nodeId: string): void {
    for (const [id, query] of this.#open) {
      if (query.nodeId === nodeId) this.#settle(id, { ok: false, reason: 'node_lost' });
    }
  }

  /** The owner parses what the agent sends, so only a faulty or foreign node sends something else. */
  #refuse(from: string, id: string): void {
    this.#log.warn({ from }, 'hub.bus_message_refused');
    this.cancel(id, { reason: 'cancelled' }, { reason: 'unavailable' });
  }

  #settle(id: string, outcome: LiveQueryOutcome): void {
    const query = this.#open.get(id);
    this.#open.delete(id);
    query?.settle(outcome);
  }
}
