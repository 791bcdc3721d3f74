import {
  AgentErrorCode,
  COMMANDS,
  rowSchema,
  type CommandResult,
  type CommandRows,
} from '../../protocol/index.ts';
import type { DeviceLink, PendingAsk } from './actor-messages.ts';
import type { AskFailure, AskOutcome } from './live-query.ts';

interface OpenAsk extends PendingAsk {
  rowsTaken: number;
}

/** The live questions that are open on one device. Each is settled once, by its result, its end or the connection's. */
export class OpenAsks {
  readonly #link: DeviceLink;
  readonly #asks = new Map<string, OpenAsk>();

  constructor(link: DeviceLink) {
    this.#link = link;
  }

  get size(): number {
    return this.#asks.size;
  }

  has(id: string): boolean {
    return this.#asks.has(id);
  }

  send(ask: PendingAsk, epoch: number): void {
    this.#asks.set(ask.id, { ...ask, rowsTaken: 0 });
    const { id, type, payload } = ask;
    const deadline = new Date(ask.deadline).toISOString();
    this.#link.sendCommand({ id, type, payload, epoch, deadline, attempt: 1 });
  }

  rows(frame: CommandRows): void {
    const ask = this.#asks.get(frame.id);
    // Late rows of a query that is over: the agent has been told, or will find out with its result.
    if (ask === undefined || frame.rows.length === 0) return;
    const parsed = rowSchema(ask.type)?.array().safeParse(frame.rows);
    if (parsed?.success !== true) {
      return this.#abort(ask, fault('INVALID_ROWS', 'The agent sent rows that are not of the agreed form.'));
    }
    ask.rowsTaken += frame.rows.length;
    if (ask.rowsTaken > ask.maxRows) {
      return this.#abort(ask, fault('TOO_MANY_ROWS', 'The agent sent more rows than were asked for.'));
    }
    ask.onRows(parsed.data);
  }

  /** An answer under another claim than this one's is no answer. */
  result(result: CommandResult, epoch: number): void {
    const ask = this.#asks.get(result.id);
    if (ask === undefined || result.epoch !== epoch) return;
    this.#asks.delete(ask.id);
    ask.settle(outcomeOf(ask, result));
  }

  /** False when no such question is open. */
  cancel(id: string, failure: AskFailure): boolean {
    const ask = this.#asks.get(id);
    if (ask !== undefined) this.#abort(ask, failure);
    return ask !== undefined;
  }

  failAll(failure: AskFailure): void {
    const open = [...this.#asks.values()];
    this.#asks.clear();
    for (const ask of open) ask.settle({ ok: false, ...failure });
  }

  #abort(ask: OpenAsk, failure: AskFailure): void {
    this.#asks.delete(ask.id);
    ask.settle({ ok: false, ...failure });
    this.#link.sendCancel({ id: ask.id });
  }
}

const fault = (code: string, message: string): AskFailure => ({ reason: 'agent', code, message });

function outcomeOf(ask: OpenAsk, result: CommandResult): AskOutcome {
  if (result.status === 'cancelled') return { ok: false, reason: 'cancelled' };
  if (result.status === 'failed') return { ok: false, ...failureOf(result) };
  const output = COMMANDS[ask.type].output.safeParse(result.output);
  if (output.success) return { ok: true, output: output.data };
  return {
    ok: false,
    ...fault('INVALID_OUTPUT', 'The agent sent an answer that is not of the agreed form.'),
  };
}

function failureOf({ error }: CommandResult): AskFailure {
  const { code, message } = error ?? { code: AgentErrorCode.failed, message: 'The agent gave no reason.' };
  return code === AgentErrorCode.capabilityMissing ? { reason: 'capability_missing' } : fault(code, message);
}
