import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import {
  TERMINALS_PER_DEVICE,
  TerminalErrorCode,
  type CommandOutput,
  type CommandPayload,
  type TerminalControl,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { endLeftover } from '../../os/process-group.ts';
import type { LiveHandlers, TerminalContext } from '../../work/live-runner.ts';
import type { NotifyPeople } from './people-notice.ts';
import { Terminal } from './terminal.ts';
import type { StartTerminalProcess } from './terminal-process.ts';

/** The shells that run, so that the next agent ends those that a killed one has left. */
const Shells = z.array(z.object({ pid: z.number().int().positive(), mark: z.string() }));
const SHELLS_FILE = 'terminals.json';

/** The terminals of this machine. They outlive connections, and end with the agent. */
export class Terminals {
  readonly #start: StartTerminalProcess;
  readonly #notify: NotifyPeople;
  readonly #file: string;
  readonly #open = new Map<string, Terminal>();
  #whenNone: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: { start: StartTerminalProcess; notify: NotifyPeople; dataDir: string }) {
    this.#start = parts.start;
    this.#notify = parts.notify;
    this.#file = path.join(parts.dataDir, SHELLS_FILE);
  }

  get handlers(): LiveHandlers {
    return { 'terminal.open': (payload, context) => this.#view(payload, context) };
  }

  /** Ends the shells that an earlier agent has left running. */
  async clear(): Promise<void> {
    const left = Shells.safeParse(await readPrivateJson(this.#file).catch(() => undefined));
    if (!left.success) return;
    await Promise.all(left.data.map((shell) => endLeftover(shell)));
    await rm(this.#file, { force: true });
  }

  control(control: TerminalControl): void {
    for (const terminal of this.#open.values()) if (terminal.control(control)) return;
  }

  /** Ends all terminals. Shells that do not end by themselves are forced to. */
  async close(): Promise<void> {
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenNone = resolve;
        for (const terminal of this.#open.values()) terminal.end('agent_stopped');
      });
    }
    await this.#writing;
  }

  async #view(
    payload: CommandPayload<'terminal.open'>,
    context: TerminalContext,
  ): Promise<CommandOutput<'terminal.open'>> {
    const { terminalId, isNew, after = 0, viewer } = payload;
    const terminal = isNew ? await this.#started(payload) : this.#open.get(terminalId);
    if (terminal === undefined) {
      throw new AgentError(TerminalErrorCode.notFound, 'The terminal has ended.');
    }
    const tooLong = () => terminal.end('too_long');
    context.timeUp.addEventListener('abort', tooLong, { once: true });
    const notice = await this.#notify(
      isNew
        ? `${viewer} has opened a terminal on this machine.`
        : `${viewer} continues a terminal on this machine.`,
    );
    const end = await terminal.view(context, { after, notice });
    if (end === undefined) return { reason: 'unattended', exitCode: null };
    if (end.reason !== 'replaced') await this.#notify(`The terminal of ${viewer} on this machine has ended.`);
    return end;
  }

  async #started(payload: CommandPayload<'terminal.open'>): Promise<Terminal> {
    const { terminalId, cols, rows } = payload;
    if (this.#open.has(terminalId)) {
      throw new AgentError(TerminalErrorCode.notStarted, 'There is a terminal with this id.');
    }
    if (this.#open.size >= TERMINALS_PER_DEVICE) {
      throw new AgentError(
        TerminalErrorCode.tooMany,
        `This device has ${TERMINALS_PER_DEVICE} terminals already. Close one of them.`,
      );
    }
    const terminal: Terminal = new Terminal(terminalId, () => {
      this.#open.delete(terminalId);
      this.#record();
      if (this.#open.size === 0) this.#whenNone?.();
    });
    // Before it has started, so that it counts.
    this.#open.set(terminalId, terminal);
    try {
      await terminal.start(this.#start, { cols, rows });
    } catch (error) {
      this.#open.delete(terminalId);
      throw error;
    }
    this.#record();
    return terminal;
  }

  /** A file that cannot be written costs only the clearing up after a killed agent. */
  #record(): void {
    const shells = [...this.#open.values()].flatMap(({ process }) => process?.known ?? []);
    this.#writing = this.#writing.then(() => writePrivateJson(this.#file, shells)).catch(() => {});
  }
}
