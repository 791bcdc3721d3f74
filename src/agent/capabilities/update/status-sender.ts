import type { UpdateStatus } from '../../../protocol/index.ts';
import { HubRefused } from '../../core/connection/answer-channel.ts';
import { dropStatuses, putStatus, waitingStatuses } from '../../os/upgrades/status-outbox.ts';

type Send = (status: UpdateStatus) => Promise<void>;

/** Sends the phases of upgrades over whatever connection exists, in their order. Unsent ones outlive the agent. */
export class StatusSender {
  readonly #dataDir: string;
  readonly #warn: (message: string) => void;
  #send: Send | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(dataDir: string, warn: (message: string) => void) {
    this.#dataDir = dataDir;
    this.#warn = warn;
  }

  /** A new connection. */
  attach(send: Send): void {
    this.#send = send;
    void this.flush();
  }

  /** Keeps the status on disk and sends it when that is possible. */
  async put(status: UpdateStatus & { attemptId: string }): Promise<void> {
    await putStatus(this.#dataDir, status);
    void this.flush();
  }

  /** Resolves when everything was sent, or could not be. */
  flush(): Promise<void> {
    this.#turn = this.#turn
      .then(() => this.#sendAll())
      .catch((error: unknown) => this.#warn(`The state of an upgrade could not be sent: ${String(error)}`));
    return this.#turn;
  }

  async #sendAll(): Promise<void> {
    const send = this.#send;
    for (const { name, status } of send === undefined ? [] : await waitingStatuses(this.#dataDir)) {
      if (this.#send !== send) return;
      await send?.(status).catch((error: unknown) => {
        if (!(error instanceof HubRefused)) throw error;
        // It would be in the way of all that come after it.
        this.#warn(`The hub did not accept the state of an upgrade: ${String(error)}`);
      });
      await dropStatuses(this.#dataDir, [name]);
    }
  }
}
