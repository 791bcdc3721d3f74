import type { Socket } from 'socket.io-client';
import {
  AGENT_MESSAGE_MAX_BYTES,
  AgentErrorCode,
  type CommandProgress,
  type CommandResult,
  type CommandRows,
} from '../protocol/index.ts';
import { AgentError } from './agent-error.ts';

/** How results and rows travel over one connection; each resolves when the hub has acknowledged. */
export interface AnswerChannel {
  rows(frame: CommandRows): Promise<void>;
  progress(progress: CommandProgress): Promise<void>;
  result(result: CommandResult): Promise<void>;
}

const RESEND_MS = 500;

/** Sends again until the hub has it or the connection is gone. */
export function channelOver(socket: Socket, ackMs: number): AnswerChannel {
  const deliver = async (event: string, message: CommandRows | CommandProgress | CommandResult) => {
    while (socket.connected) {
      try {
        const answer = (await socket.timeout(ackMs).emitWithAck(event, message)) as {
          ok: boolean;
          error?: { code: string };
        };
        if (answer.ok) return;
        // The hub will not take it however often it comes.
        if (answer.error?.code !== 'DEVICE_BUSY') throw new HubRefused(answer.error?.code ?? 'unknown');
      } catch (error) {
        if (error instanceof HubRefused) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, RESEND_MS));
    }
    throw new Error('the connection ended before the hub had the answer');
  };
  return {
    async rows(frame) {
      if (isTooLarge(frame)) throw new AgentError(AgentErrorCode.tooLarge, 'A row is too large to be sent.');
      await deliver('command:rows', frame);
    },
    progress: (progress) => deliver('command:progress', progress),
    result: (result) => deliver('command:result', sendable(result)),
  };
}

/** Room for what surrounds a message on its way. */
const MESSAGE_MAX_BYTES = AGENT_MESSAGE_MAX_BYTES - 20_000;

const isTooLarge = (message: unknown) => Buffer.byteLength(JSON.stringify(message)) > MESSAGE_MAX_BYTES;

/** The hub ends the connection over a message that is too large, and would over each that follows. */
export function sendable({ output, ...result }: CommandResult): CommandResult {
  if (!isTooLarge({ ...result, output })) return { ...result, output };
  const error = result.error ?? {
    code: AgentErrorCode.tooLarge,
    message: 'The output was too large to be sent.',
  };
  return { ...result, status: 'failed', error };
}

class HubRefused extends Error {
  constructor(code: string) {
    super(`the hub refused a message: ${code}`);
  }
}
