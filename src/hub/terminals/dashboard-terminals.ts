import { clock, type Timer } from '../../clock.ts';
import type { Caller, ClientInfo } from '../../platform/context.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type {
  TerminalClosed,
  TerminalEnd,
  TerminalInput,
  TerminalOpen,
  TerminalOpened,
  TerminalOutput,
  TerminalSize,
} from '../../protocol/index.ts';
import type { RunLiveQuery } from '../device/live-query.ts';
import type { TerminalStore } from '../ports.ts';
import { Recorder } from './recorder.ts';
import { TerminalView, type ViewEnd } from './terminal-view.ts';

/** The connection of a client, as its terminals use it. */
export interface TerminalConnection {
  /** The origin of the connection, for the audit trail. */
  client(): ClientInfo;
  output(message: TerminalOutput): void;
  closed(message: TerminalClosed): void;
}

interface Parts {
  /** `undefined`: this server has no terminals. */
  terminals: TerminalStore | undefined;
  query: RunLiveQuery;
  log: Logger;
}

/** The store limits the terminals of a person; this limits what is being opened. */
const PER_CONNECTION = 8;
/** How often it is looked up whether the terminals may still be viewed, also without an announced change. */
const CHECK_MS = 15_000;

/** The terminals that one dashboard connection views. */
export class DashboardTerminals {
  readonly #connection: TerminalConnection;
  readonly #parts: Parts;
  readonly #caller: () => Caller;
  readonly #views = new Map<string, TerminalView>();
  /** Terminals that are being continued: a second view of one would not be in `#views`, and outlive its rights. */
  readonly #continuing = new Set<string>();
  #opening = 0;
  #checkTimer: Timer | undefined;
  #isClosed = false;

  /** @param caller  the person with their rights as they were looked up last */
  constructor(connection: TerminalConnection, caller: () => Caller, parts: Parts) {
    this.#connection = connection;
    this.#caller = caller;
    this.#parts = parts;
  }

  async open(caller: Caller, asked: TerminalOpen): Promise<TerminalOpened> {
    const store = this.#store;
    if (this.#views.size + this.#opening >= PER_CONNECTION) {
      throw new AppError('rate_limited', `A connection may have at most ${PER_CONNECTION} terminals.`);
    }
    const { terminalId: known } = asked;
    if (known !== undefined && (this.#views.has(known) || this.#continuing.has(known))) {
      throw new AppError('conflict', 'This connection views the terminal already.');
    }
    this.#opening += 1;
    if (known !== undefined) this.#continuing.add(known);
    try {
      return await this.#open(store, caller, asked);
    } finally {
      this.#opening -= 1;
      if (known !== undefined) this.#continuing.delete(known);
    }
  }

  input(message: TerminalInput): void {
    this.#viewOf(message.terminalId).input(message);
  }

  resize({ terminalId, cols, rows }: TerminalSize & { terminalId: string }): void {
    this.#viewOf(terminalId).resize({ cols, rows });
  }

  end(terminalId: string): void {
    this.#viewOf(terminalId).end('closed');
  }

  /** Ends the terminals that the person may not view any more. Throws if that cannot be looked up. */
  async recheck(caller: Caller): Promise<void> {
    if (this.#views.size === 0) return;
    const viewed = Array.from(this.#views, ([terminalId, { deviceId }]) => ({ terminalId, deviceId }));
    const ends = await this.#store.keep(caller, viewed);
    for (const [terminalId, reason] of ends) this.#views.get(terminalId)?.end(reason);
  }

  /** The person has lost the right to have them. */
  endAll(reason: TerminalEnd): void {
    for (const view of this.#views.values()) view.end(reason);
  }

  /** The connection has ended. Its terminals wait for a viewer. */
  close(): void {
    this.#isClosed = true;
    clock.clear(this.#checkTimer);
    for (const view of this.#views.values()) view.leave();
  }

  get #store(): TerminalStore {
    const { terminals } = this.#parts;
    if (terminals === undefined) throw new AppError('unavailable', 'This server has no terminals.');
    return terminals;
  }

  #viewOf(terminalId: string): TerminalView {
    const view = this.#views.get(terminalId);
    if (view === undefined) throw notFound('Terminal');
    return view;
  }

  async #open(store: TerminalStore, caller: Caller, asked: TerminalOpen): Promise<TerminalOpened> {
    const { deviceId, cols, rows, terminalId: known, resumeToken, after = 0 } = asked;
    const size = { cols, rows };
    const granted =
      known === undefined
        ? await store.open({ caller, client: this.#connection.client(), deviceId, size })
        : await store.resume({ caller, deviceId, terminalId: known, resumeToken });
    const { terminalId, viewer } = granted;
    const recorder: Recorder = new Recorder({
      store: (part) => store.record(terminalId, part),
      recordedTo: granted.recordedTo,
      onRecorded: () => view.recorded(),
      onFailed: (reason) => view.end(reason),
      log: this.#parts.log,
    });
    const view: TerminalView = new TerminalView({
      terminalId,
      deviceId,
      query: this.#parts.query,
      recorder,
      client: this.#connection,
      onEnd: (end) => void this.#ended(terminalId, recorder, end),
    });
    this.#views.set(terminalId, view);
    try {
      const isNew = known === undefined;
      const { mode, shell, notice, offset } = await view.begin({ isNew, size, viewer, after });
      if (isNew) recorder.resized(size);
      else recorder.mark('continued');
      if (this.#isClosed) view.leave();
      this.#checkSoon();
      return { ok: true, terminalId, resumeToken: granted.resumeToken, mode, shell, notice, offset };
    } catch (error) {
      this.#views.delete(terminalId);
      await recorder.close();
      const isGone = error instanceof AppError && error.code === 'device_error';
      // A device that is not reached may still run a terminal that is to be continued.
      if (known === undefined) await store.ended(terminalId, { reason: 'not_started', exitCode: null });
      else if (isGone) await store.ended(terminalId, { reason: 'device_lost', exitCode: null });
      throw error;
    }
  }

  async #ended(terminalId: string, recorder: Recorder, end: ViewEnd): Promise<void> {
    this.#views.delete(terminalId);
    try {
      if (end.kind === 'detached') recorder.mark(end.reason);
      await recorder.close({ isContinued: end.reason === 'replaced' });
      if (end.kind === 'ended') await this.#store.ended(terminalId, end);
    } catch (error) {
      // The sweep of terminals without a viewer records the end later.
      this.#parts.log.warn({ err: error, terminalId }, 'terminal.end_not_recorded');
    }
  }

  #checkSoon(): void {
    if (this.#isClosed || this.#views.size === 0) return;
    this.#checkTimer ??= clock
      .setTimeout(() => {
        this.#checkTimer = undefined;
        this.recheck(this.#caller()).then(
          () => this.#checkSoon(),
          (error: unknown) => {
            this.#parts.log.warn({ err: error }, 'terminal.not_rechecked');
            // Fail closed: what may be viewed is unknown. The terminals can be continued when it is known again.
            for (const view of this.#views.values()) view.leave();
          },
        );
      }, CHECK_MS)
      .unref();
  }
}
