import {
  AgentErrorCode,
  COMMANDS,
  rowSchema,
  type CommandResult,
  type CommandRows,
} from '../../protocol/index.ts';
import type { DeviceLink, LiveQueryRequest } from './actor-messages.ts';
import type { LiveQueryFailure, LiveQueryOutcome } from './live-query.ts';

interface PendingQuery extends LiveQueryRequest {
  rowsReceived: number;
}

/** The open live queries of one device. Each is settled once: by its result, its cancellation or a lost connection. */
export class PendingQueries {
  readonly #link: DeviceLink;
  readonly #queries = new Map<string, PendingQuery>();

  constructor(link: DeviceLink) {
    this.#link = link;
  }

  get size(): number {
    return this.#queries.size;
  }

  has(id: string): boolean {
    return this.#queries.has(id);
  }

  send(query: LiveQueryRequest, epoch: number): void {
    this.#queries.set(query.id, { ...query, rowsReceived: 0 });
    const { id, type, payload } = query;
    const deadline = new Date(query.deadline).toISOString();
    this.#link.sendCommand({ id, type, payload, epoch, deadline, attempt: 1 });
  }

  rows(frame: CommandRows): void {
    const query = this.#queries.get(frame.id);
    // Late rows of a settled query: the agent was told to cancel it, or is about to send its result.
    if (query === undefined || frame.rows.length === 0) return;
    const parsed = rowSchema(query.type)?.array().safeParse(frame.rows);
    if (parsed?.success !== true) {
      return this.#abort(query, fault('INVALID_ROWS', 'The agent sent rows in an invalid format.'));
    }
    query.rowsReceived += frame.rows.length;
    if (query.rowsReceived > query.maxRows) {
      return this.#abort(query, fault('TOO_MANY_ROWS', 'The agent sent more rows than requested.'));
    }
    query.onRows(parsed.data);
  }

  /** A result under another epoch belongs to another connection and is ignored. */
  result(result: CommandResult, epoch: number): void {
    const query = this.#queries.get(result.id);
    if (query === undefined || result.epoch !== epoch) return;
    this.#queries.delete(query.id);
    query.settle(outcomeOf(query, result));
  }

  /** False when there is no such open query. */
  cancel(id: string, failure: LiveQueryFailure): boolean {
    const query = this.#queries.get(id);
    if (query !== undefined) this.#abort(query, failure);
    return query !== undefined;
  }

  failAll(failure: LiveQueryFailure): void {
    const open = [...this.#queries.values()];
    this.#queries.clear();
    for (const query of open) query.settle({ ok: false, ...failure });
  }

  #abort(query: PendingQuery, failure: LiveQueryFailure): void {
    this.#queries.delete(query.id);
    query.settle({ ok: false, ...failure });
    this.#link.sendCancel({ id: query.id });
  }
}

const fault = (code: string, message: string): LiveQueryFailure => ({ reason: 'agent', code, message });

function outcomeOf(query: PendingQuery, result: CommandResult): LiveQueryOutcome {
  if (result.status === 'cancelled') return { ok: false, reason: 'cancelled' };
  if (result.status === 'failed') return { ok: false, ...failureOf(result) };
  const output = COMMANDS[query.type].output.safeParse(result.output);
  if (output.success) return { ok: true, output: output.data };
  return { ok: false, ...fault('INVALID_OUTPUT', 'The agent sent an answer in an invalid format.') };
}

function failureOf({ error }: CommandResult): LiveQueryFailure {
  const { code, message } = error ?? { code: AgentErrorCode.failed, message: 'The agent gave no reason.' };
  return code === AgentErrorCode.capabilityMissing ? { reason: 'capability_missing' } : fault(code, message);
}
